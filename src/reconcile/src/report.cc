#include "crosscheck/reconcile/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>

#include "crosscheck/base/json.h"
#include "rationale.h"

namespace crosscheck::reconcile {
namespace {

namespace json = base::json;

constexpr std::array k_kinds{Kind::promote, Kind::demote,        Kind::expire,     Kind::added,
                             Kind::gone,    Kind::contradiction, Kind::inseparable};

std::string_view heading(Kind kind) {
  switch (kind) {
    case Kind::promote:
      return "promote: must pass from now on";
    case Kind::demote:
      return "demote: need not pass any longer";
    case Kind::expire:
      return "expire: decided anew, as the reason's time is over";
    case Kind::added:
      return "new: collected, and not listed";
    case Kind::gone:
      return "gone: listed, and not collected";
    case Kind::contradiction:
      return "contradicts a person's decision, which stands";
    case Kind::inseparable:
      return "cannot be told apart by name: to be decided by hand";
  }
  return "";
}

std::string line(const Change& change) {
  std::string text = change.name;
  if (change.way == Way::split) text += fmt::format(" (out of '{}')", change.uses[0].name->text());
  if (change.decision) {
    text +=
        change.before == change.decision->mode
            ? fmt::format(": {}", to_string(change.before))
            : fmt::format(": {} -> {}", to_string(change.before), to_string(change.decision->mode));
  } else if (change.way == Way::removed) {
    text += change.is_written() ? ": removed" : "";
  } else if (change.way == Way::renamed) {
    text += fmt::format(": {}", to_string(change.before));
  } else {
    text += fmt::format(": {} stays", to_string(change.before));
  }
  text += ": " + change.why;
  return base::to_utf8(text);
}

using Counts = std::map<Kind, std::int64_t>;
Counts written_counts(const Proposals& proposals) {
  Counts counts;
  for (const Change& change : proposals.changes)
    if (change.is_written()) ++counts[change.kind];
  return counts;
}

std::int64_t count(const Proposals& proposals, bool (*which)(const Change&)) {
  return std::count_if(proposals.changes.begin(), proposals.changes.end(), which);
}
bool is_held(const Change& change) { return change.held; }
bool is_contradiction(const Change& change) { return change.kind == Kind::contradiction; }
bool is_inseparable(const Change& change) { return change.kind == Kind::inseparable; }

std::string totals(const Proposals& proposals, Written written) {
  std::int64_t all = 0;
  std::string parts;
  for (const auto& [kind, number] : written_counts(proposals)) {
    all += number;
    parts += fmt::format("{}{} {}", parts.empty() ? ": " : ", ", number, to_string(kind));
  }
  const char* const what = written == Written::yes ? "written" : "proposed";
  std::string text =
      all == 0 ? fmt::format("nothing to change")
               : fmt::format("{} {} {}{}", all, all == 1 ? "change" : "changes", what, parts);
  if (const auto held = count(proposals, is_held)) text += fmt::format("; {} held back", held);
  if (const auto persons = count(proposals, is_contradiction))
    text += fmt::format("; {} against a person's decision", persons);
  if (const auto mixed = count(proposals, is_inseparable))
    text += fmt::format("; {} to be decided by hand", mixed);
  return text + "\n";
}

std::string notes(const Proposals& proposals) {
  std::string text;
  const auto add = [&](const std::string& note) { text += note + "\n"; };
  if (proposals.suspicious())
    add(fmt::format(
        "held back: {} of {} must-pass tests that were seen fail for the first time, as "
        "they do when a machine is broken. Run again: what a second run shows too is "
        "believed; or give --confirm",
        proposals.falls, proposals.must_pass_seen));
  if (proposals.runs.empty()) {
    add("no run counts: what is said of outcomes is nothing");
  } else {
    add(fmt::format("by {} {}, the newest {}", proposals.runs.size(),
                    proposals.runs.size() == 1 ? "run" : "runs", reference(*proposals.runs[0])));
  }
  if (proposals.runs_elsewhere > 0)
    add(fmt::format("{} runs left out: `when` lets other entries hold where they ran",
                    proposals.runs_elsewhere));
  if (proposals.restricted_passes > 0)
    add(fmt::format(
        "{} tests pass that lists of what is supported, or edits, leave out or force to "
        "xfail",
        proposals.restricted_passes));
  if (proposals.ungoverned > 0)
    add(fmt::format("{} tests are in files that the configuration does not have",
                    proposals.ungoverned));
  return text;
}

}  // namespace

std::string to_text(const Proposals& proposals, Written written) {
  std::string text;
  const config::FileEntry* file = nullptr;
  std::optional<Kind> kind;
  // Held ones under a heading of their own, behind the others.
  for (const bool held : {false, true}) {
    file = nullptr;
    for (const Change& change : proposals.changes) {
      if (change.held != held) continue;
      if (change.file != file) {
        file = change.file;
        kind.reset();
        text += fmt::format("{}{} ({})\n", held ? "held back, " : "",
                            base::to_utf8(config::without_token(file->path)),
                            to_string(file->path_node.place()));
      }
      if (change.kind != kind) {
        kind = change.kind;
        text += fmt::format("  {}\n", heading(*kind));
      }
      text += "    " + line(change) + "\n";
    }
  }
  if (!text.empty()) text += "\n";
  if (!proposals.complete)
    text +=
        "the tests are those that the runs show, not all that there are: give --inventory to learn "
        "what is new or gone\n";
  return text + notes(proposals) + totals(proposals, written);
}

json::object to_json(const Proposals& proposals, const config::CollectedSuite& suite,
                     Written written) {
  json::array changes;
  for (const Change& change : proposals.changes) {
    json::object object{{"kind", to_string(change.kind)},
                        {"way", to_string(change.way)},
                        {"written", change.is_written() && written == Written::yes},
                        {"held", change.held},
                        {"file", base::to_utf8(config::without_token(change.file->path))},
                        {"name", base::to_utf8(change.name)},
                        {"before", to_string(change.before)},
                        {"tests", change.tests.size()},
                        {"governed", change.governed},
                        {"why", base::to_utf8(change.why)}};
    const config::Node at =
        change.uses.empty() ? change.file->path_node : change.uses[0].name->node;
    object["place"] = to_string(at.place());
    if (change.decision) {
      object["after"] = to_string(change.decision->mode);
      if (const auto& rationale = change.decision->rationale) {
        object["reason"] = to_string(rationale->reason);
        json::array evidence;
        for (const auto& one : rationale->evidence)
          evidence.push_back(json::object{{"kind", one.kind}, {"ref", base::to_utf8(one.ref)}});
        object["evidence"] = std::move(evidence);
      }
    }
    json::array nodes;
    for (const std::size_t test : change.tests)
      nodes.push_back(json::value(to_string(suite.tests[test].id)));
    object["ids"] = std::move(nodes);
    changes.push_back(std::move(object));
  }
  json::array runs;
  for (const Run* run : proposals.runs) runs.push_back(json::value(run->id));
  json::object counts;
  const Counts by_kind = written_counts(proposals);
  for (const Kind kind : k_kinds) {
    if (kind == Kind::contradiction || kind == Kind::inseparable) continue;
    const auto found = by_kind.find(kind);
    counts[to_string(kind)] = found == by_kind.end() ? 0 : found->second;
  }
  counts["held"] = count(proposals, is_held);
  counts["contradiction"] = count(proposals, is_contradiction);
  counts["inseparable"] = count(proposals, is_inseparable);
  return {{"pending", proposals.pending() && (written == Written::no || proposals.suspicious())},
          {"written", written == Written::yes},
          {"complete", proposals.complete},
          {"changes", std::move(changes)},
          {"counts", std::move(counts)},
          {"runs", std::move(runs)},
          {"runs_elsewhere", proposals.runs_elsewhere},
          {"falls", proposals.falls},
          {"must_pass_seen", proposals.must_pass_seen},
          {"restricted_passes", proposals.restricted_passes},
          {"ungoverned", proposals.ungoverned}};
}

}  // namespace crosscheck::reconcile
