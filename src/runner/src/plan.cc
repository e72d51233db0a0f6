#include "crosscheck/runner/plan.h"

#include <re2/re2.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "crosscheck/base/digest.h"
#include "crosscheck/runner/classify.h"

namespace crosscheck::runner {
namespace {

using base::Duration;
using base::fail;
using base::Fault;
using base::Result;

class Matcher {
 public:
  static Result<Matcher> make(const std::vector<std::string>& patterns) {
    Matcher matcher;
    for (const auto& pattern : patterns) {
      const bool expression = pattern.size() > 1 && pattern.front() == '/' && pattern.back() == '/';
      if (pattern.size() == (expression ? 2 : 0)) {
        return fail(Fault::usage, "'" + pattern + "' is an empty pattern, which every test matches",
                    "leave it out to take all tests");
      }
      if (!expression) {
        matcher.parts_.push_back(pattern);
        continue;
      }
      matcher.expressions_.push_back(std::make_unique<re2::RE2>(
          re2::StringPiece{pattern}.substr(1, pattern.size() - 2), re2::RE2::Quiet));
      if (const auto& made = *matcher.expressions_.back(); !made.ok()) {
        return fail(Fault::usage, "'" + pattern + "' is no regular expression: " + made.error(),
                    "write it as RE2 has them, without lookaround and backreferences, or without "
                    "slashes to mean a part of the node id");
      }
    }
    return matcher;
  }

  [[nodiscard]] bool matches(const std::string& node_id) const {
    if (parts_.empty() && expressions_.empty()) return true;
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const auto& part) { return node_id.find(part) != std::string::npos; }) ||
           std::any_of(expressions_.begin(), expressions_.end(), [&](const auto& expression) {
             return re2::RE2::PartialMatch(node_id, *expression);
           });
  }

 private:
  std::vector<std::string> parts_;
  // In linear time: a backtracking one could take years over a node id.
  std::vector<std::unique_ptr<re2::RE2>> expressions_;
};

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

Result<std::unordered_set<std::string_view>> known_nodes(const std::vector<CollectedTest>& tests,
                                                         const std::vector<std::string>& wanted) {
  std::unordered_set<std::string_view> known;
  for (const auto& test : tests) known.insert(test.node_id);
  std::vector<std::string> unknown;
  std::unordered_set<std::string_view> chosen;
  for (const auto& node : wanted) {
    if (!known.contains(node)) unknown.push_back(node);
    chosen.insert(node);
  }
  if (!unknown.empty()) {
    return fail(Fault::invalid_input, "not in the inventory: " + listed(unknown, 5),
                "collect it again with `crosscheck collect`, or take these names off the list");
  }
  return chosen;
}

// Whatever their order, and however often they are named.
std::string digest_of(const std::vector<std::string>& texts) {
  constexpr std::size_t k_length = 12;
  std::string names;
  for (const auto& text : std::set<std::string_view>{texts.begin(), texts.end()}) {
    names += text;
    names += '\n';
  }
  return base::sha256_hex(names).substr(0, k_length);
}

struct File {
  std::string name;
  std::vector<std::size_t> tests;
  std::vector<Duration> until{Duration{0}};  // what all take before each, and in the end
};

// Tests of a file from `begin` to `end`.
struct Piece {
  std::size_t file = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// How it goes when each worker takes the next piece, in order, whenever it has ended one.
struct Outlook {
  Duration ends{0};       // the last worker
  std::size_t first = 0;  // the piece that one begins with, and ends with
  std::size_t last = 0;
};

// The pieces of which the longest are begun first, and how files are best cut into them.
class Pieces {
 public:
  Pieces(const std::vector<File>& files, const PlanOptions& options)
      : files_{files}, options_{options} {
    for (std::size_t f = 0; f < files.size(); ++f) all_.push_back({f, 0, files[f].tests.size()});
    put_in_order(all_);
    while (options.workers > 1 && !all_.empty() && split_one()) {
    }
  }

  [[nodiscard]] std::vector<Chunk> chunks() const {
    std::vector<Chunk> chunks;
    for (const auto& piece : all_) {
      const auto& tests = files_[piece.file].tests;
      const auto at = [&](std::size_t i) { return tests.begin() + static_cast<std::ptrdiff_t>(i); };
      chunks.push_back(
          {files_[piece.file].name, {at(piece.begin), at(piece.end)}, expected(piece)});
    }
    return chunks;
  }

 private:
  [[nodiscard]] Duration expected(const Piece& piece) const {
    const auto& until = files_[piece.file].until;
    return until[piece.end] - until[piece.begin];
  }

  void put_in_order(std::vector<Piece>& pieces) const {
    std::ranges::sort(pieces, [&](const Piece& a, const Piece& b) {
      const auto x = expected(a);
      const auto y = expected(b);
      return x != y ? x > y : files_[a.file].tests[a.begin] < files_[b.file].tests[b.begin];
    });
  }

  // Slices of nearly equal time, in order.
  [[nodiscard]] std::vector<Piece> split(const Piece& whole, std::size_t parts) const {
    const auto& until = files_[whole.file].until;
    std::vector<Piece> slices;
    Piece slice{whole.file, whole.begin, whole.begin};
    for (std::size_t i = whole.begin; i < whole.end; ++i) {
      const auto share = expected(whole) * static_cast<std::int64_t>(slices.size() + 1) /
                         static_cast<std::int64_t>(parts);
      const auto middle = (until[i] + until[i + 1]) / 2 - until[whole.begin];
      if (slice.end > slice.begin && slices.size() + 1 < parts && middle >= share) {
        slices.push_back(slice);
        slice.begin = i;
      }
      slice.end = i + 1;
    }
    slices.push_back(slice);
    return slices;
  }

  [[nodiscard]] Outlook look_ahead(const std::vector<Piece>& pieces) const {
    struct Worker {
      Duration ends{0};
      std::size_t number = 0;
      std::optional<std::size_t> first = {};
      std::size_t last = 0;
      bool operator>(const Worker& other) const {
        return ends != other.ends ? ends > other.ends : number > other.number;
      }
    };
    std::priority_queue<Worker, std::vector<Worker>, std::greater<>> workers;
    for (std::size_t n = 0; n < options_.workers; ++n) workers.push({Duration{0}, n});
    Worker latest;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      auto next = workers.top();
      workers.pop();
      next.ends += options_.start_cost + expected(pieces[i]);
      if (!next.first) next.first = i;
      next.last = i;
      if (next.ends > latest.ends) latest = next;
      workers.push(next);
    }
    return {latest.ends, latest.first.value_or(0), latest.last};
  }

  // Splits one piece, of those that the last worker would have, if all then ends so much sooner
  // that it is worth the further starts: half of what each costs, since a worker that waits does
  // nothing.
  bool split_one() {
    constexpr std::size_t k_most_parts = 64;  // at once; of a larger number of workers, again
    const auto now = look_ahead(all_);
    std::vector<Piece> best;
    auto least = now.ends;
    for (const auto i : std::set{now.first, now.last}) {
      const auto piece = all_[i];
      const auto of_file =
          static_cast<std::size_t>(std::ranges::count(all_, piece.file, &Piece::file));
      const auto most =
          std::min({options_.workers + 1 - of_file, piece.end - piece.begin, k_most_parts});
      for (std::size_t parts = 2; parts <= most; ++parts) {
        auto tried = all_;
        tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(i));
        for (const auto& slice : split(piece, parts)) tried.push_back(slice);
        put_in_order(tried);
        const auto cost = options_.start_cost * static_cast<std::int64_t>(parts - 1) / 2;
        const auto ends = look_ahead(tried).ends + cost;
        if (ends >= least) continue;
        least = ends;
        best = std::move(tried);
      }
    }
    if (best.empty()) return false;
    all_ = std::move(best);
    return true;
  }

  const std::vector<File>& files_;
  const PlanOptions& options_;
  std::vector<Piece> all_;
};

}  // namespace

std::string Selection::describe() const {
  std::string text = quick ? "quick set" : "all tests";
  constexpr std::size_t k_listed = 20;
  if (!patterns.empty()) text += ", matching " + listed(patterns, k_listed);
  // Two lists of one length are two selections.
  if (patterns.size() > k_listed) text += " (" + digest_of(patterns) + ")";
  if (node_ids) {
    text +=
        ", from a list of " + std::to_string(node_ids->size()) + " (" + digest_of(*node_ids) + ")";
  }
  return text;
}

Result<std::vector<std::size_t>> select(const std::vector<CollectedTest>& tests,
                                        const Selection& selection) {
  const auto matcher = Matcher::make(selection.patterns);
  if (!matcher) return tl::unexpected(matcher.error());
  std::unordered_set<std::string_view> chosen;
  if (selection.node_ids) {
    auto known = known_nodes(tests, *selection.node_ids);
    if (!known) return tl::unexpected(known.error());
    chosen = std::move(*known);
  }
  std::vector<std::size_t> selected;
  std::size_t of_quick = 0;
  std::size_t of_list = 0;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    if (selection.quick && !tests[i].quick) continue;
    ++of_quick;
    if (selection.node_ids && !chosen.contains(tests[i].node_id)) continue;
    ++of_list;
    if (matcher->matches(tests[i].node_id)) selected.push_back(i);
  }
  if (!selected.empty()) return selected;
  const auto none = [](std::string why, std::string remedy) {
    return fail(Fault::invalid_input, "no test is selected: " + std::move(why), std::move(remedy));
  };
  const auto total = std::to_string(tests.size());
  if (tests.empty()) {
    return none("the inventory is empty", "see its collect errors: `crosscheck collect`");
  }
  if (of_quick == 0) {
    return none("none of the " + total + " collected tests is in the quick set",
                "leave out --quick");
  }
  if (of_list == 0) {
    return none(selection.node_ids->empty() ? "the list of tests is empty"
                                            : "no test of the list is in the quick set",
                "check the file given with --tests-from");
  }
  return none("none of " + std::to_string(of_list) + " tests matches " +
                  listed(selection.patterns, 5) + " (the first is called " + tests[0].node_id + ")",
              "a pattern is a part of a node id, or a regular expression between slashes");
}

std::vector<base::TestResult> uncollected(const Inventory& inventory, const Selection& selection) {
  std::vector<base::TestResult> results;
  if (selection.node_ids) return results;
  const auto matcher = Matcher::make(selection.patterns);
  if (!matcher) return results;
  std::map<std::string, int> attempts;
  for (const auto& error : inventory.errors) {
    if (!matcher->matches(error.file)) continue;
    auto verdict = classify_collect_error(error);
    base::TestResult result;
    result.id = {error.file, "", "(collection)", "{}"};
    result.node_id = error.file;
    result.attempt = ++attempts[error.file];
    result.outcome = verdict.outcome;
    result.kind = verdict.kind;
    result.fingerprint = std::move(verdict.fingerprint);
    result.message = std::move(verdict.message);
    result.detail = std::move(verdict.detail);
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<Chunk> plan(const std::vector<CollectedTest>& tests,
                        const std::vector<std::size_t>& selected, const KnownTimes& times,
                        const PlanOptions& options) {
  std::vector<File> files;
  std::unordered_map<std::string_view, std::size_t> by_file;
  for (const auto i : selected) {
    const auto& test = tests[i];
    const auto [at, added] = by_file.emplace(test.id.file, files.size());
    if (added) files.emplace_back().name = test.id.file;
    const auto known = times.find(test.id);
    auto& file = files[at->second];
    file.tests.push_back(i);
    file.until.push_back(file.until.back() +
                         (known == times.end() ? options.unknown_test : known->second));
  }
  return Pieces{files, options}.chunks();
}

}  // namespace crosscheck::runner
