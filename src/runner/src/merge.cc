#include "crosscheck/runner/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/runner/shard.h"

namespace crosscheck::runner {
namespace {

using base::Error;
using base::fail;
using base::Fault;
using base::Result;
using base::RunHeader;

tl::unexpected<Error> apart(const MergePart& a, const MergePart& b, std::string_view what,
                            std::string_view of_a, std::string_view of_b, std::string remedy) {
  return fail(
      Fault::conflict,
      fmt::format("{} and {} do not go together: {} is '{}' in the one and '{}' in the other",
                  a.name, b.name, what, of_a, of_b),
      std::move(remedy));
}

Result<void> same_combination(const MergePart& a, const MergePart& b) {
  const auto& left = a.run.header.combination;
  const auto& right = b.run.header.combination;
  if (left == right) return {};
  const std::string remedy = "merge the runs of one combination; compare those of several";
  for (const auto& [name, field] :
       {std::pair{"backend", &base::Combination::backend},
        {"backend_revision", &base::Combination::backend_revision},
        {"core_revision", &base::Combination::core_revision},
        {"suite_revision", &base::Combination::suite_revision},
        {"device", &base::Combination::device},
        {"environment_digest", &base::Combination::environment_digest}}) {
    if (left.*field != right.*field) {
      return apart(a, b, name, left.*field, right.*field, remedy);
    }
  }
  return {};
}

std::string config_text(const RunHeader& header) {
  std::string text;
  for (const auto& file : header.config) {
    text += (text.empty() ? "" : ", ") + file.path + " (" + file.digest.substr(0, 12) + ")";
  }
  return text.empty() ? "none" : text;
}

// By content: each job may have checked it out somewhere else.
std::vector<std::string> config_digests(const RunHeader& header) {
  std::vector<std::string> digests;
  digests.reserve(header.config.size());
  for (const auto& file : header.config) digests.push_back(file.digest);
  return digests;
}

Result<void> same_rules(const MergePart& a, const MergePart& b) {
  const auto& left = a.run.header;
  const auto& right = b.run.header;
  if (config_digests(left) != config_digests(right)) {
    return apart(a, b, "the configuration", config_text(left), config_text(right),
                 "their outcomes are judged differently: run both on one configuration");
  }
  if (left.observe != right.observe) {
    return apart(a, b, "--observe", left.observe ? "on" : "off", right.observe ? "on" : "off",
                 "their outcomes are judged differently: run both alike");
  }
  return {};
}

auto time_order(const MergePart& part) {
  return std::tie(part.run.header.started_at, part.run.header.run_id);
}

// One part a run. Of one that was interrupted and then gone on with, the whole one.
Result<std::vector<MergePart>> once_each(std::vector<MergePart> parts,
                                         std::vector<std::string>& notes) {
  std::map<std::string, MergePart> by_run;
  std::set<std::string> twice;
  for (auto& part : parts) {
    const auto id = part.run.header.run_id;
    const auto at = by_run.find(id);
    if (at == by_run.end()) {
      by_run.emplace(id, std::move(part));
      continue;
    }
    auto& known = at->second;
    twice.insert(id);
    const bool known_ended = !known.run.header.interrupted;
    const bool part_ended = !part.run.header.interrupted;
    if (known_ended != part_ended) {
      if (part_ended) known = std::move(part);
    } else if (base::to_json_lines(known.run) != base::to_json_lines(part.run)) {
      return fail(Fault::conflict,
                  fmt::format("{} and {} are of one run, {}, and say different things of it",
                              known.name, part.name, id),
                  "give the file that `crosscheck run` wrote last");
    }
  }
  for (const auto& id : twice)
    notes.push_back(fmt::format("run {} is given twice: counted once", id));
  std::vector<MergePart> once;
  once.reserve(by_run.size());
  for (auto& [id, part] : by_run) once.push_back(std::move(part));
  std::sort(once.begin(), once.end(),
            [](const auto& a, const auto& b) { return time_order(a) < time_order(b); });
  return once;
}

// The runs that a part is of: itself, or those that it was merged from.
std::vector<base::MergedRun> runs_of(const MergePart& part) {
  const auto& header = part.run.header;
  if (!header.merged.empty()) return header.merged;
  return {{header.run_id, header.shard, header.interrupted}};
}

// A run that stands in another part already cannot be told from that any more.
Result<void> no_overlap(const std::vector<MergePart>& parts) {
  std::map<std::string, const MergePart*> seen;
  for (const auto& part : parts) {
    for (const auto& run : runs_of(part)) {
      const auto [at, added] = seen.emplace(run.run_id, &part);
      if (added) continue;
      return fail(
          Fault::conflict,
          fmt::format("{} and {} both hold run {}", at->second->name, part.name, run.run_id),
          "merge the runs' own files, all at once");
    }
  }
  return {};
}

struct Slot {
  std::vector<std::string> runs;  // of this shard
  std::optional<Shard> planned;
};

// Which shards there are, were more than once, and are not.
Result<void> check_shards(const std::vector<MergePart>& parts, Merged& merged) {
  struct Leaf {
    const MergePart* part;
    base::MergedRun run;
    ShardRequest shard;
  };
  std::vector<Leaf> leaves;
  for (const auto& part : parts) {
    for (auto& run : runs_of(part)) {
      if (run.shard.empty()) continue;
      auto shard = parse_shard(run.shard);
      if (!shard) {
        return fail(Fault::invalid_input,
                    fmt::format("{}: field shard: {}", part.name, shard.error().message));
      }
      leaves.push_back({&part, std::move(run), *std::move(shard)});
    }
  }
  if (leaves.empty()) return {};
  const auto& first = leaves.front();
  const auto digest = [](const ShardRequest& of) { return of.planned ? of.planned->digest : ""; };
  std::map<std::size_t, Slot> slots;
  for (const auto& leaf : leaves) {
    if (leaf.shard.count != first.shard.count || digest(leaf.shard) != digest(first.shard)) {
      return apart(*first.part, *leaf.part, "the plan that it is a shard of", first.run.shard,
                   leaf.run.shard, "merge the shards of one plan");
    }
    auto& slot = slots[leaf.shard.index];
    if (slot.planned && slot.planned != leaf.shard.planned) {
      return apart(*first.part, *leaf.part, "what the shard holds", to_string(*slot.planned),
                   leaf.run.shard, "merge the shards of one plan");
    }
    slot.planned = leaf.shard.planned;
    slot.runs.push_back(leaf.run.run_id);
  }
  for (std::size_t index = 1; index <= first.shard.count; ++index) {
    const auto at = slots.find(index);
    if (at == slots.end()) {
      merged.missing.push_back(fmt::format("{}/{}", index, first.shard.count));
    } else if (at->second.runs.size() > 1) {
      merged.notes.push_back(fmt::format("shard {}/{} ran {} times ({}): its attempts are all kept",
                                         index, first.shard.count, at->second.runs.size(),
                                         fmt::join(at->second.runs, ", ")));
    }
  }
  return {};
}

// Of texts that may differ: each once, in order.
std::string united(const std::vector<MergePart>& parts, const auto& text_of,
                   std::string_view between) {
  std::set<std::string> texts;
  for (const auto& part : parts) texts.insert(text_of(part.run.header));
  return fmt::format("{}", fmt::join(texts, between));
}

RunHeader merged_header(const std::vector<MergePart>& parts, bool complete) {
  RunHeader header;
  const auto& first = parts.front().run.header;
  header.combination = first.combination;
  header.config = first.config;
  header.observe = first.observe;
  header.command = {"crosscheck", "merge"};
  header.selection = united(parts, [](const RunHeader& part) { return part.selection; }, "; ");
  header.started_at = first.started_at;
  header.finished_at = first.finished_at;
  header.interrupted = !complete;
  std::map<std::string, std::set<std::string>> facts;
  std::set<base::MergedRun> runs;
  for (const auto& part : parts) {
    const auto& of = part.run.header;
    header.started_at = std::min(header.started_at, of.started_at);
    header.finished_at = std::max(header.finished_at, of.finished_at);
    header.imported = header.imported || of.imported;
    for (const auto& [name, value] : of.environment) facts[name].insert(value);
    for (auto& run : runs_of(part)) {
      header.interrupted = header.interrupted || run.interrupted;
      runs.insert(std::move(run));
    }
  }
  for (const auto& [name, values] : facts) {
    header.environment.emplace_back(name, fmt::format("{}", fmt::join(values, ", ")));
  }
  header.merged.assign(runs.begin(), runs.end());
  base::json::array ids;
  for (const auto& run : header.merged) ids.emplace_back(run.run_id);
  header.run_id = base::sha256_hex(base::canonical_json(ids)).substr(0, 32);
  return header;
}

}  // namespace

Result<Merged> merge(std::vector<MergePart> parts) {
  if (parts.empty()) return fail(Fault::usage, "there is nothing to merge");
  // Whichever order they came in, the same two are named.
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::tuple{time_order(a), std::string_view{a.name}} <
           std::tuple{time_order(b), std::string_view{b.name}};
  });
  for (std::size_t i = 1; i < parts.size(); ++i) {
    for (const auto check : {same_combination, same_rules}) {
      if (auto same = check(parts[0], parts[i]); !same) return tl::unexpected{same.error()};
    }
  }
  Merged merged;
  auto once = once_each(std::move(parts), merged.notes);
  if (!once) return tl::unexpected{once.error()};
  if (auto disjoint = no_overlap(*once); !disjoint) return tl::unexpected{disjoint.error()};
  if (auto shards = check_shards(*once, merged); !shards) return tl::unexpected{shards.error()};
  if (once->size() == 1 && merged.missing.empty() && once->front().run.header.shard.empty()) {
    merged.run = std::move(once->front().run);  // nothing to merge it with
    return merged;
  }
  merged.run.header = merged_header(*once, merged.missing.empty());
  auto& results = merged.run.results;
  for (auto& part : *once) {
    auto& of = part.run.results;
    std::sort(of.begin(), of.end(), [](const auto& a, const auto& b) {
      return std::tie(a.id, a.attempt) < std::tie(b.id, b.attempt);
    });
    results.insert(results.end(), std::make_move_iterator(of.begin()),
                   std::make_move_iterator(of.end()));
  }
  // Parts are in the order in which their runs began, and so stay the attempts of a test.
  std::stable_sort(results.begin(), results.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool again = i > 0 && results[i].id == results[i - 1].id;
    // A single run's numbers may have gaps: an import that does not know of an attempt.
    const int least = again ? results[i - 1].attempt + 1 : 1;
    results[i].attempt = std::max(results[i].attempt, least);
  }
  return merged;
}

}  // namespace crosscheck::runner
