#include "resume.h"

#include <algorithm>

#include "crosscheck/store/run_history.h"
#include "crosscheck/store/run_store.h"
#include "owner.h"

namespace crosscheck::runner {
namespace {

using base::fail;
using base::Fault;
using base::Result;
using store::UnfinishedRun;

// What makes two runs different, by name; empty: nothing does.
std::string difference(const base::RunHeader& a, const base::RunHeader& b) {
  const auto& x = a.combination;
  const auto& y = b.combination;
  const auto differ = [](std::string_view what, const std::string& was, const std::string& now) {
    return std::string{what} + " was " + (was.empty() ? "none" : was) + " and is " +
           (now.empty() ? "none" : now);
  };
  for (const auto& [what, was, now] :
       {std::tuple{"the backend", &x.backend, &y.backend},
        {"the backend's revision", &x.backend_revision, &y.backend_revision},
        {"torch", &x.core_revision, &y.core_revision},
        {"the suite's revision", &x.suite_revision, &y.suite_revision},
        {"the device", &x.device, &y.device},
        {"the environment", &x.environment_digest, &y.environment_digest},
        {"the selection", &a.selection, &b.selection},
        {"the shard", &a.shard, &b.shard}}) {
    if (*was != *now) return differ(what, *was, *now);
  }
  if (a.config != b.config) return "the configuration is another";
  if (a.observe != b.observe) return "one is with --observe";
  return {};
}

Result<UnfinishedRun> find(store::Tx& tx, const base::RunHeader& header,
                           const std::string& run_id) {
  const auto none = [](std::string why) {
    return fail(Fault::invalid_input, std::move(why), "leave out --resume to begin a run");
  };
  if (run_id.empty()) {
    auto runs = store::unfinished_runs(tx, header.combination);
    if (!runs) return tl::unexpected(runs.error());
    const auto same = std::ranges::find_if(*runs, [&](const UnfinishedRun& candidate) {
      return difference(candidate.run.header, header).empty();
    });
    if (same != runs->end()) return std::move(*same);
    return none("there is no unfinished run of this subject and selection");
  }
  auto found = store::unfinished_run(tx, run_id);
  if (!found) return tl::unexpected(found.error());
  if (!*found) return none("there is no unfinished run " + run_id);
  if (const auto why = difference((*found)->run.header, header); !why.empty()) {
    return fail(Fault::invalid_input, "run " + run_id + " cannot be resumed: " + why,
                "resume it with the options that it was begun with, or leave out --resume");
  }
  return std::move(**found);
}

}  // namespace

Result<Resumed> resume_run(store::Store& store, const base::RunHeader& header,
                           const std::string& run_id, base::Time now) {
  return store.write_value([&](store::Tx& tx) -> Result<Resumed> {
    auto found = find(tx, header, run_id);
    if (!found) return tl::unexpected(found.error());
    const auto& run = found->run;
    const auto going_on = [&] {
      return fail(Fault::busy, "run " + run.header.run_id + " still goes on",
                  "wait for it to end, or end its process");
    };
    if (!found->owner.name.empty() && is_alive(found->owner, now)) return going_on();
    const auto taken = store::take_over_run(tx, run.id, found->owner, {own_name(), now});
    if (!taken) return tl::unexpected(taken.error());
    if (!*taken) return going_on();
    auto results = store::read_results(tx, run.id, store::Texts::whole);
    if (!results) return tl::unexpected(results.error());
    return Resumed{run.id, run.header, std::move(*results)};
  });
}

Result<void> end_dead_runs(store::Store& store, base::Time now) {
  auto runs = store.read_value([](store::Tx& tx) { return store::owned_runs(tx); });
  if (!runs) return tl::unexpected(runs.error());
  for (const auto& [run, owner] : *runs) {
    if (is_alive(owner, now)) continue;
    auto ended = store.write(
        [id = run.id, &dead = owner](store::Tx& tx) { return store::end_dead_run(tx, id, dead); });
    if (!ended) return ended;
  }
  return {};
}

}  // namespace crosscheck::runner
