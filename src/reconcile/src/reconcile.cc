#include "crosscheck/reconcile/reconcile.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "rationale.h"

namespace crosscheck::reconcile {
namespace {

using config::Basis;
using config::Entry;
using config::FileEntry;
using config::Mode;
using config::Name;
using config::Rationale;
using Verdict = Sighting::Verdict;

std::string qualified(std::string_view class_name, std::string_view method) {
  return class_name.empty() ? std::string{method} : fmt::format("{}::{}", class_name, method);
}
// As written in the file, and as instantiated: the narrowest name that a test has.
std::string written_name(const config::CollectedTest& test) {
  return qualified(test.id.class_name, test.id.method);
}
std::string collected_name(const config::CollectedTest& test) { return test.collected; }

// What stands for some tests: a name of entries that agree, or the tests of one name that no entry
// lists.
struct Group {
  const FileEntry* file = nullptr;
  std::vector<Change::Use> uses = {};
  std::string name = {};
  std::string renamed_from = {};
  Mode mode = Mode::skip;
  const Rationale* rationale = nullptr;
  std::vector<std::size_t> tests = {};
  // Another pattern stands for some of its tests too, and will go on to.
  bool shared = false;

  [[nodiscard]] bool is_pattern() const { return !uses.empty() && uses[0].name->is_pattern(); }
};

using Wishes = std::map<Mode, std::vector<std::size_t>>;

// What is wanted of a group's tests.
struct Plan {
  bool expired = false;
  bool is_new = false;
  Wishes wishes = {};
  Wishes against_person = {};
  std::size_t content = 0;                // tests that have the mode they should have
  std::vector<std::size_t> staying = {};  // tests that the group's name stands for afterwards

  [[nodiscard]] bool agreed() const {
    return content == 0 && against_person.empty() && wishes.size() == 1;
  }
};

class Proposer {
  static constexpr auto k_no_group = static_cast<std::size_t>(-1);

 public:
  Proposer(const config::Config& config, const config::CollectedSuite& suite, bool complete,
           const History& history, const config::Circumstances& circumstances,
           const Options& options, std::string_view today)
      : config_{config},
        suite_{suite},
        complete_{complete},
        history_{history},
        circumstances_{circumstances},
        options_{options},
        today_{today},
        governor_{config, circumstances} {}

  Proposals run() {
    proposals_.complete = complete_;
    choose_runs();
    config::SuiteReport report = config::check_against(config_, suite_, circumstances_);
    proposals_.rulings = std::move(report.rulings);
    for (config::Finding& finding : report.findings)
      if (finding.kind == config::FindingKind::tie) proposals_.ties.push_back(std::move(finding));
    if (!proposals_.ties.empty()) return std::move(proposals_);
    subjects_.resize(suite_.tests.size());
    for (std::size_t i = 0; i < suite_.tests.size(); ++i) look_at(i);
    make_groups();
    if (complete_) take_missing(report.missing);
    note_shared();
    for (const Group& group : groups_) plans_.push_back(plan(group));
    separate_shared();
    for (const Group& group : groups_) decide(group, plans_[number_of(group)]);
    hold_back();
    put_in_order();
    return std::move(proposals_);
  }

 private:
  // A run counts where the same entries hold as where the tests run now.
  void choose_runs() {
    std::vector<const Entry*> conditional;
    for (const FileEntry& file : config_.files)
      for (const Entry& entry : file.entries)
        if (!entry.when.is_always()) conditional.push_back(&entry);
    for (const Run* run : history_.runs()) {
      const config::Circumstances there = circumstances(*run);
      const bool same =
          std::all_of(conditional.begin(), conditional.end(), [&](const Entry* entry) {
            return entry->when.holds(there) == entry->when.holds(circumstances_);
          });
      counts_[run] = same;
      if (same) {
        proposals_.runs.push_back(run);
      } else {
        ++proposals_.runs_elsewhere;
      }
    }
  }

  void look_at(std::size_t test) {
    Subject& subject = subjects_[test];
    subject.test = &suite_.tests[test];
    subject.sightings = history_.of(subject.test->id, &counts_);
    subject.standing = standing(subject.sightings, std::max(options_.window, options_.passes));
    const config::Ruling& ruling = proposals_.rulings[test];
    const Standing& stands = subject.standing;
    if (!ruling.file) ++proposals_.ungoverned;
    if (ruling.mode == Mode::mandatory_success && stands.newest) {
      ++proposals_.must_pass_seen;
      if (stands.fails == 1) ++proposals_.falls;
    }
    if (ruling.file && ruling.basis != Basis::listed && ruling.basis != Basis::unlisted &&
        passes(stands))
      ++proposals_.restricted_passes;
  }

  [[nodiscard]] bool passes(const Standing& stands) const {
    return stands.passes >= options_.passes && !stands.flaky;
  }

  Group& group_of(const FileEntry& file, const Entry& entry, const Name& name) {
    auto& same_text = by_text_[&file][name.text()];
    for (const std::size_t number : same_text)
      if (groups_[number].uses[0].entry->when == entry.when) return groups_[number];
    same_text.push_back(groups_.size());
    Group& group = groups_.emplace_back();
    group.file = &file;
    group.name = name.text();
    group.mode = entry.mode;
    return group;
  }

  void make_groups() {
    std::unordered_map<const Name*, std::size_t> by_name;
    for (const FileEntry& file : config_.files) {
      for (const Entry& entry : file.entries) {
        if (!entry.when.holds(circumstances_)) continue;
        for (const Name& name : entry.names) {
          Group& group = group_of(file, entry, name);
          group.uses.push_back({&entry, &name});
          // Of several, a person's word is the one to heed.
          if (entry.rationale && (!group.rationale || is_persons(*entry.rationale)))
            group.rationale = &*entry.rationale;
          by_name[&name] = number_of(group);
        }
      }
    }
    for (std::size_t i = 0; i < suite_.tests.size(); ++i) {
      const config::Ruling& ruling = proposals_.rulings[i];
      if (!ruling.file) continue;
      const std::string written = written_name(suite_.tests[i]);
      if (ruling.basis == Basis::listed) {
        groups_[by_name.at(ruling.name)].tests.push_back(i);
      } else if (ruling.basis == Basis::unlisted) {
        const auto [found, fresh] =
            unlisted_.emplace(std::pair{ruling.file, written}, groups_.size());
        if (fresh) {
          Group& group = groups_.emplace_back();
          group.file = ruling.file;
          group.name = written;
          group.mode = ruling.file->unlisted;
        }
        groups_[found->second].tests.push_back(i);
      }
      if (!ruling.name || ruling.name->is_pattern()) {
        auto& standing_for = outdone_by_written_[{ruling.file, written}];
        standing_for.insert(ruling.name ? by_name.at(ruling.name) : k_no_group);
      }
    }
  }

  // Whether listing a test's name as written is about tests of the group alone: it goes over
  // patterns, which may stand for other variants.
  [[nodiscard]] bool is_free(const Group& group, const std::string& written) const {
    const auto found = outdone_by_written_.find({group.file, written});
    if (found == outdone_by_written_.end()) return true;
    const std::size_t own = group.is_pattern() ? number_of(group) : k_no_group;
    return std::all_of(found->second.begin(), found->second.end(),
                       [&](std::size_t other) { return other == own; });
  }

  [[nodiscard]] std::size_t number_of(const Group& group) const {
    return static_cast<std::size_t>(&group - groups_.data());
  }

  // Names that no collected test has: another takes their place, or they go.
  void take_missing(const std::vector<config::Missing>& missing) {
    std::set<const FileEntry*> broken;
    for (const std::string& file : suite_.broken_files)
      if (const FileEntry* entry = governor_.find_file(file)) broken.insert(entry);
    std::set<std::size_t> done;
    for (const config::Missing& one : missing) {
      if (broken.contains(one.file)) continue;
      Group& group = group_of(*one.file, *one.entry, *one.name);
      if (!done.insert(number_of(group)).second) continue;
      Change change = start(group, Kind::gone, Way::removed);
      change.why = "no collected test has this name";
      const bool is_persons_word = is_protected(group);
      if (!one.renamed_to.empty()) {
        const auto other = unlisted_.find({one.file, one.renamed_to});
        if (other != unlisted_.end())
          change.why += fmt::format("; {} is named alike", one.renamed_to);
        if (other != unlisted_.end() && !is_persons_word &&
            is_free(groups_[other->second], one.renamed_to)) {
          Group& target = groups_[other->second];
          group.tests = std::move(target.tests);
          group.renamed_from = group.name;
          group.name = one.renamed_to;
          target.tests.clear();
          unlisted_.erase(other);
          continue;
        }
      }
      if (is_persons_word) {
        change.kind = Kind::contradiction;
        change.why = persons(*group.rationale) + "; " + change.why;
      }
      add(std::move(change));
      group.uses.clear();
      group.tests.clear();
      group.rationale = nullptr;
      group.file = nullptr;
    }
  }

  // A pattern may only be decided about as a whole where no other one stands for its tests; and
  // what a person's pattern stands for is not decided about by another's.
  void note_shared() {
    std::unordered_map<const FileEntry*, std::vector<std::size_t>> patterns;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (groups_[i].file && groups_[i].is_pattern()) patterns[groups_[i].file].push_back(i);
    std::erase_if(patterns, [](const auto& file) { return file.second.size() < 2; });
    if (patterns.empty()) return;
    for (std::size_t i = 0; i < suite_.tests.size(); ++i) {
      const config::Ruling& ruling = proposals_.rulings[i];
      if (!ruling.name || !ruling.name->is_pattern()) continue;
      const auto of_file = patterns.find(ruling.file);
      if (of_file == patterns.end()) continue;
      std::vector<std::size_t> standing_for;
      for (const std::size_t number : of_file->second)
        if (config::names(*groups_[number].uses[0].name, suite_.tests[i]))
          standing_for.push_back(number);
      if (standing_for.size() < 2) continue;
      for (const std::size_t number : standing_for)
        if (is_protected(groups_[number])) guarded_[i] = groups_[number].rationale;
      shared_[i] = std::move(standing_for);
    }
  }

  [[nodiscard]] bool is_protected(const Group& group) const {
    return group.rationale && is_persons(*group.rationale) && why_over(group).empty();
  }
  // Why what was decided of a group counts no longer; empty: it does.
  [[nodiscard]] std::string why_over(const Group& group) const {
    if (!group.rationale) return {};
    if (is_expired(*group.rationale, today_))
      return fmt::format("the reason expired on {}", group.rationale->expires);
    const auto changed = std::ranges::find_if(group.tests, [&](std::size_t test) {
      return config::has_changed(suite_.tests[test], *group.rationale);
    });
    if (changed == group.tests.end()) return {};
    return fmt::format("{} is another test than that was decided for",
                       written_name(suite_.tests[*changed]));
  }
  static std::string persons(const Rationale& rationale) {
    std::string text = "a person decided this";
    if (!rationale.decided_at.empty()) text += " on " + rationale.decided_at;
    if (!rationale.expires.empty()) text += ", until " + rationale.expires;
    return text;
  }

  // The mode that a test should have instead; nothing: the one it has.
  [[nodiscard]] std::optional<Mode> wish(Mode mode, const Rationale* rationale,
                                         const Standing& stands) const {
    const bool pass = passes(stands);
    const bool shaky = stands.flaky && stands.passes < options_.passes;
    switch (mode) {
      case Mode::mandatory_success:
        if (stands.fails > 0 || shaky) return Mode::xfail;
        return std::nullopt;
      case Mode::xfail_strict:
        if (pass) return Mode::mandatory_success;
        if (stands.flaky) return Mode::xfail;
        return std::nullopt;
      case Mode::skip:
        if (rationale && is_about_scope(rationale->reason)) return std::nullopt;
        [[fallthrough]];
      case Mode::xfail:
        if (pass) return Mode::mandatory_success;
        return std::nullopt;
    }
    return std::nullopt;
  }
  // The mode of a test about which nothing that was decided counts any longer, or ever did.
  [[nodiscard]] Mode afresh(Mode mode, const Standing& stands) const {
    if (passes(stands)) return Mode::mandatory_success;
    const bool promised = mode == Mode::mandatory_success;
    return promised && stands.passes > 0 && !stands.flaky ? Mode::mandatory_success : Mode::xfail;
  }

  Plan plan(const Group& group) const {
    Plan plan;
    if (!group.file) return plan;
    plan.expired = !why_over(group).empty();
    plan.is_new = group.uses.empty() && group.mode == Mode::skip;
    plan.staying = group.tests;
    for (const std::size_t test : group.tests) {
      const Standing& stands = subjects_[test].standing;
      const auto wished = plan.expired || plan.is_new ? std::optional{afresh(group.mode, stands)}
                                                      : wish(group.mode, group.rationale, stands);
      if (!wished) {
        ++plan.content;
      } else if (is_protected(group) || guarded_.contains(test)) {
        plan.against_person[*wished].push_back(test);
      } else {
        plan.wishes[*wished].push_back(test);
      }
    }
    return plan;
  }

  [[nodiscard]] Kind kind_of(const Plan& plan, Mode after) const {
    return plan.expired ? Kind::expire : plan.is_new ? Kind::added : kind_of(after);
  }

  // A pattern may only change as a whole where no other one stands for its tests: those get names
  // of their own first.
  void separate_shared() {
    for (const Group& group : groups_) {
      if (!group.file || !group.is_pattern()) continue;
      Plan& plan = plans_[number_of(group)];
      const auto is_named = [&](std::size_t test) { return is_named_apart(*group.file, test); };
      for (auto& [mode, tests] : plan.wishes) {
        std::vector<std::size_t> shared;
        std::copy_if(tests.begin(), tests.end(), std::back_inserter(shared),
                     [&](std::size_t test) { return shared_.contains(test); });
        if (shared.empty()) continue;
        name_apart(group, plan, mode, shared, group.mode, kind_of(plan, mode));
        std::erase_if(tests, is_named);
      }
      std::erase_if(plan.wishes, [](const auto& one) { return one.second.empty(); });
      std::erase_if(plan.staying, is_named);
    }
    for (const auto& [test, standing_for] : shared_)
      if (!is_named_apart(*groups_[standing_for.front()].file, test))
        for (const std::size_t number : standing_for) groups_[number].shared = true;
  }

  [[nodiscard]] bool is_named_apart(const FileEntry& file, std::size_t test) const {
    return named_apart_.contains({&file, written_name(suite_.tests[test])}) ||
           named_apart_.contains({&file, collected_name(suite_.tests[test])});
  }

  void decide(const Group& group, Plan& plan) {
    if (!group.file || (group.uses.empty() && group.tests.empty())) return;
    for (const auto& [mode, tests] : plan.against_person) contradict(group, mode, tests);
    if (is_protected(group)) return;
    Wishes& wishes = plan.wishes;
    if (plan.expired && plan.staying.empty()) wishes[Mode::xfail] = {};
    if (group.shared) {
      for (const auto& [mode, tests] : wishes)
        if (!tests.empty()) split(group, plan, mode, tests, group.mode, kind_of(plan, mode));
      if (plan.expired) say_inseparable(group, Mode::xfail, {}, "its reason expired; ");
    } else if (plan.agreed()) {
      whole(group, plan, wishes.begin()->first, wishes.begin()->second);
    } else if (plan.expired || plan.is_new) {
      whole(group, plan, Mode::xfail, wishes[Mode::xfail]);
      wishes.erase(Mode::xfail);
      for (const auto& [mode, tests] : wishes)
        split(group, plan, mode, tests, Mode::xfail, plan.is_new ? Kind::added : Kind::promote);
    } else {
      if (!group.renamed_from.empty()) rename(group);
      for (const auto& [mode, tests] : wishes)
        split(group, plan, mode, tests, group.mode, kind_of(mode));
    }
  }

  Change start(const Group& group, Kind kind, Way way) const {
    Change change;
    change.kind = kind;
    change.way = way;
    change.file = group.file;
    change.uses = group.uses;
    change.name = group.name;
    change.before = group.mode;
    change.governed = group.tests.size();
    return change;
  }

  void add(Change change) { proposals_.changes.push_back(std::move(change)); }

  void set_decision(Change& change, Mode mode, const std::vector<std::size_t>& tests,
                    std::string_view prefix) const {
    std::vector<const Subject*> subjects;
    subjects.reserve(tests.size());
    for (const std::size_t test : tests) subjects.push_back(&subjects_[test]);
    Explained explained;
    if (subjects.empty()) {
      const Subject none;
      const Subject* const one = &none;
      explained = explain_decision({&one, 1}, mode, options_, today_);
    } else {
      explained = explain_decision(subjects, mode, options_, today_);
    }
    change.decision = config::Decision{mode, std::move(explained.rationale)};
    change.why = fmt::format("{}{}", prefix, explained.why);
    change.tests = tests;
  }

  [[nodiscard]] static Kind kind_of(Mode after) {
    return after == Mode::mandatory_success ? Kind::promote : Kind::demote;
  }

  // `shown`: those of its tests that tell why.
  void whole(const Group& group, const Plan& plan, Mode mode,
             const std::vector<std::size_t>& shown) {
    const bool is_listed = !group.uses.empty();
    const Kind kind = kind_of(plan, mode);
    if (!is_listed && !is_free(group, group.name)) {
      // The name would go over patterns that stand for other variants: each is listed alone.
      split(group, plan, mode, shown, group.mode, kind);
      return;
    }
    Change change = start(group, kind,
                          !is_listed                    ? Way::listed
                          : !group.renamed_from.empty() ? Way::renamed
                                                        : Way::whole);
    std::string prefix;
    if (plan.expired) prefix = why_over(group) + "; ";
    if (!group.renamed_from.empty()) prefix += fmt::format("was {}; ", group.renamed_from);
    set_decision(change, mode, shown, prefix);
    change.tests = plan.staying;
    add(std::move(change));
  }

  void rename(const Group& group) {
    Change change = start(group, Kind::gone, Way::renamed);
    change.why =
        fmt::format("{} is not collected, and this one, which no entry lists, is named alike",
                    group.renamed_from);
    change.tests = group.tests;
    add(std::move(change));
  }

  void contradict(const Group& group, Mode mode, const std::vector<std::size_t>& tests) {
    Change change = start(group, Kind::contradiction, Way::whole);
    const Rationale* word = is_protected(group) ? group.rationale : guarded_.at(tests.front());
    set_decision(change, mode, tests,
                 fmt::format("{}; {} of {} tests should be {}: ", persons(*word), tests.size(),
                             group.tests.size(), to_string(mode)));
    change.decision.reset();
    add(std::move(change));
  }

  // More specific names for those of a group's tests that should have another mode than the rest.
  void split(const Group& group, const Plan& plan, Mode mode, const std::vector<std::size_t>& tests,
             Mode before, Kind kind) {
    const auto left = name_apart(group, plan, mode, tests, before, kind);
    if (!left.empty()) say_inseparable(group, mode, left, {});
  }

  void say_inseparable(const Group& group, Mode mode, const std::vector<std::size_t>& tests,
                       std::string_view why) {
    Change change = start(group, Kind::inseparable, Way::whole);
    set_decision(change, mode, tests,
                 tests.empty()
                     ? fmt::format("{}another pattern stands for some of its tests too; ", why)
                     : fmt::format("{}{} of {} tests should be {}, and no name stands for them "
                                   "alone; ",
                                   why, tests.size(), group.tests.size(), to_string(mode)));
    change.decision.reset();
    add(std::move(change));
  }

  // Adds a change for each name that stands for tests with the wish for `mode` alone, among them
  // those given; returns the tests with that wish that are left of those given.
  std::vector<std::size_t> name_apart(const Group& group, const Plan& plan, Mode mode,
                                      const std::vector<std::size_t>& tests, Mode before,
                                      Kind kind) {
    // By the name as written first, where that is the narrower one and it stands for these alone.
    const auto written = [&](std::size_t test) {
      const config::CollectedTest& it = suite_.tests[test];
      const bool narrower =
          group.is_pattern() || (!group.uses.empty() && it.id.method == group.name);
      std::string name = narrower ? written_name(it) : std::string{};
      return is_free(group, name) ? name : std::string{};
    };
    const auto collected = [&](std::size_t test) { return collected_name(suite_.tests[test]); };
    const auto wished = plan.wishes.find(mode);
    const std::vector<std::size_t>& wishing = wished == plan.wishes.end() ? tests : wished->second;
    std::vector<std::size_t> left = tests;
    left = name_apart_by(group, mode, left, wishing, before, kind, written);
    return name_apart_by(group, mode, left, wishing, before, kind, collected);
  }

  // A test without a name has an empty one.
  template <class NameOf>
  std::vector<std::size_t> name_apart_by(const Group& group, Mode mode,
                                         const std::vector<std::size_t>& tests,
                                         const std::vector<std::size_t>& wishing, Mode before,
                                         Kind kind, NameOf name_of) {
    const std::unordered_set<std::size_t> wish_it{wishing.begin(), wishing.end()};
    std::set<std::string> mixed{group.name, std::string{}};
    for (const std::size_t test : group.tests)
      if (!wish_it.contains(test)) mixed.insert(name_of(test));
    std::map<std::string, std::vector<std::size_t>> by_name;
    for (const std::size_t test : tests) by_name[name_of(test)];
    for (const std::size_t test : wishing)
      if (const auto found = by_name.find(name_of(test)); found != by_name.end())
        found->second.push_back(test);
    for (const auto& [name, named] : by_name) {
      if (mixed.contains(name)) continue;
      Change change = start(group, kind, group.uses.empty() ? Way::listed : Way::split);
      change.before = before;
      change.name = name;
      set_decision(change, mode, named, {});
      named_apart_.insert({group.file, name});
      if (!group.uses.empty()) {
        // Behind the entry whose edits take the test.
        const config::Ruling& ruling = proposals_.rulings[named.front()];
        if (ruling.entry) change.uses = {{ruling.entry, ruling.name}};
        change.why += fmt::format("; {} of the {} tests of '{}'", named.size(), group.tests.size(),
                                  group.name);
      }
      add(std::move(change));
    }
    std::vector<std::size_t> left;
    std::copy_if(tests.begin(), tests.end(), std::back_inserter(left),
                 [&](std::size_t test) { return mixed.contains(name_of(test)); });
    return left;
  }

  void hold_back() {
    const double share = options_.fall_share * static_cast<double>(proposals_.must_pass_seen);
    if (options_.confirmed || proposals_.falls <= static_cast<std::int64_t>(options_.fall_tests) ||
        static_cast<double>(proposals_.falls) <= share)
      return;
    for (Change& change : proposals_.changes) {
      if (change.before != Mode::mandatory_success || !change.is_written()) continue;
      change.held = std::any_of(change.tests.begin(), change.tests.end(), [&](std::size_t test) {
        return subjects_[test].standing.fails == 1 &&
               proposals_.rulings[test].mode == Mode::mandatory_success;
      });
    }
  }

  void put_in_order() {
    std::unordered_map<const FileEntry*, std::size_t> order;
    for (const FileEntry& file : config_.files) order.emplace(&file, order.size());
    const auto key = [&](const Change& change) {
      return std::tuple{order.at(change.file), change.kind, std::string_view{change.name}};
    };
    std::stable_sort(proposals_.changes.begin(), proposals_.changes.end(),
                     [&](const Change& a, const Change& b) { return key(a) < key(b); });
  }

  const config::Config& config_;
  const config::CollectedSuite& suite_;
  bool complete_;
  const History& history_;
  const config::Circumstances& circumstances_;
  const Options& options_;
  std::string_view today_;
  config::Governor governor_;
  Proposals proposals_;
  History::Counts counts_;
  std::vector<Subject> subjects_;
  std::vector<Group> groups_;
  std::vector<Plan> plans_;  // of the groups
  std::unordered_map<const FileEntry*,
                     std::unordered_map<std::string_view, std::vector<std::size_t>>>
      by_text_;
  using WrittenName = std::pair<const FileEntry*, std::string>;
  std::map<WrittenName, std::size_t> unlisted_;
  // Groups of patterns, and k_no_group for tests that no entry lists, over which a test's name as
  // written would go if it was listed.
  std::map<WrittenName, std::set<std::size_t>> outdone_by_written_;
  std::unordered_map<std::size_t, const Rationale*> guarded_;  // tests of a person's pattern
  std::map<std::size_t, std::vector<std::size_t>> shared_;     // of tests: groups of patterns
  std::set<WrittenName> named_apart_;                          // names that tests get for their own
};

// What of a change stands in the document.
base::Result<void> write_change(config::Editor& editor, const config::Document& document,
                                const Change& change) {
  if (change.way == Way::listed) return editor.decide(*change.file, change.name, *change.decision);
  for (const Change::Use& use : change.uses) {
    if (&use.entry->node.document() != &document) continue;
    const auto write_use = [&] {
      switch (change.way) {
        case Way::split:
          return editor.split(*change.file, *use.entry, change.name, *change.decision);
        case Way::removed:
          return editor.remove(*change.file, *use.entry, *use.name);
        case Way::renamed:
          return editor.rename(*change.file, *use.entry, *use.name, change.name, change.decision);
        case Way::whole:
        case Way::listed:
          break;
      }
      return editor.decide(*change.file, *use.entry, *use.name, *change.decision);
    };
    if (auto done = write_use(); !done) return done;
  }
  return {};
}

bool is_in(const Change& change, const config::Document& document) {
  if (change.way == Way::listed) return &change.file->node.document() == &document;
  return std::any_of(change.uses.begin(), change.uses.end(), [&](const Change::Use& use) {
    return &use.entry->node.document() == &document;
  });
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::promote:
      return "promote";
    case Kind::demote:
      return "demote";
    case Kind::expire:
      return "expire";
    case Kind::added:
      return "new";
    case Kind::gone:
      return "gone";
    case Kind::contradiction:
      return "contradiction";
    case Kind::inseparable:
      return "inseparable";
  }
  return "";
}

std::string_view to_string(Way way) {
  switch (way) {
    case Way::whole:
      return "whole";
    case Way::split:
      return "split";
    case Way::listed:
      return "listed";
    case Way::renamed:
      return "renamed";
    case Way::removed:
      return "removed";
  }
  return "";
}

bool Proposals::suspicious() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const Change& change) { return change.held; });
}

bool Proposals::pending() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const Change& change) { return change.held || change.is_written(); });
}

Proposals propose(const config::Config& config, const config::CollectedSuite& suite, bool complete,
                  const History& history, const config::Circumstances& circumstances,
                  const Options& options, std::string_view today) {
  return Proposer{config, suite, complete, history, circumstances, options, today}.run();
}

base::Result<NewTexts> write(const config::Config& config, const Proposals& proposals) {
  // In the order of the configuration's files.
  NewTexts texts;
  for (const auto& document : config.documents) {
    config::Editor editor{*document};
    bool changed = false;
    for (const Change& change : proposals.changes) {
      if (!change.is_written() || !is_in(change, *document)) continue;
      changed = true;
      if (auto done = write_change(editor, *document, change); !done)
        return tl::unexpected(done.error());
    }
    if (!changed) continue;
    auto text = editor.apply();
    if (!text) return tl::unexpected(text.error());
    texts.emplace(document.get(), std::move(*text));
  }
  return texts;
}

base::Result<void> verify(const config::Config& after, const config::CollectedSuite& suite,
                          const config::Circumstances& circumstances, const Proposals& proposals) {
  std::vector<Mode> wanted;
  wanted.reserve(suite.tests.size());
  for (const config::Ruling& ruling : proposals.rulings) wanted.push_back(ruling.mode);
  // What stands for more tests first: names that are split from it go over it.
  std::vector<const Change*> changes;
  for (const Change& change : proposals.changes)
    if (change.is_written()) changes.push_back(&change);
  std::stable_sort(changes.begin(), changes.end(), [](const Change* a, const Change* b) {
    return a->tests.size() > b->tests.size();
  });
  std::vector<bool> changed(suite.tests.size());
  for (const Change* change : changes) {
    for (const std::size_t test : change->tests) {
      wanted[test] = change->decision ? change->decision->mode : change->before;
      changed[test] = true;
    }
  }
  const std::vector<config::Ruling> rulings =
      config::Governor{after, circumstances}.rule(suite.tests);
  for (std::size_t i = 0; i < rulings.size(); ++i) {
    if (rulings[i].mode == wanted[i]) continue;
    // Lists of what is supported, and edits, may say otherwise of what is listed now.
    const bool by_name = rulings[i].basis == Basis::listed || rulings[i].basis == Basis::unlisted ||
                         rulings[i].basis == Basis::tied;
    if (changed[i] && !by_name) continue;
    return base::fail(
        base::Fault::internal,
        fmt::format("the proposals together would make {} {}, where {} is meant",
                    to_string(suite.tests[i].id), to_string(rulings[i].mode), to_string(wanted[i])),
        "nothing was written; decide about this test by hand, and report this");
  }
  return {};
}

}  // namespace crosscheck::reconcile
