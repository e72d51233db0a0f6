#include "crosscheck/relay/rerun.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <optional>

#include "accept_again.h"
#include "crosscheck/relay/github_calls.h"

namespace crosscheck::relay {
namespace {

using base::Result;
namespace json = base::json;

Asked ignore(std::string reason) { return {.ignored = std::move(reason)}; }

// Does `body` in one transaction with the delivery's row, once a delivery.
template <class F>
Result<Asked> once(store::Store& store, std::string_view delivery_id, std::string_view type,
                   std::string_view action, base::Time now, F body) {
  return store.write_value([&](store::Tx& tx) -> Result<Asked> {
    const auto noted = note_delivery(tx, delivery_id, type, action, now);
    if (!noted) return tl::unexpected(noted.error());
    if (*noted) {
      Asked asked{.event = **noted};
      auto queued = body(tx, asked.event);
      if (!queued) return tl::unexpected(queued.error());
      asked.queued = *std::move(queued);
      return asked;
    }
    const auto again = accept_again(tx, delivery_id, now);
    if (!again) return tl::unexpected(again.error());
    return Asked{.event = again->event, .duplicate = true, .armed = again->armed};
  });
}

Result<std::vector<std::string>> queue_reruns(store::Tx& tx, std::int64_t delivery,
                                              const base::RepoName& repo,
                                              const std::vector<std::string>& run_ids,
                                              base::Time now) {
  for (const std::string& run_id : run_ids)
    if (auto queued =
            queue_once(tx, rerun_of(CallKind::rerun_failed_jobs, delivery, repo, run_id), now);
        !queued)
      return tl::unexpected(queued.error());
  return std::vector<std::string>{repo.full_name()};
}

// The runs of `repo` for a commit that did not pass.
Result<std::vector<std::string>> failed_runs(store::Tx& tx, const base::RepoName& repo,
                                             std::string_view head_sha) {
  auto rows = tx.query(
      "SELECT DISTINCT run_id FROM jobs WHERE head_sha = $1 AND repo_key = $2 AND delivery IS NOT "
      "NULL AND state = 'completed' AND COALESCE(conclusion, '') NOT IN ('success', 'neutral', "
      "'skipped') AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.delivery_id = jobs.delivery_id AND "
      "n.repo_key = jobs.repo_key AND n.run_id = jobs.run_id AND n.job_name = jobs.job_name AND "
      "n.run_attempt > jobs.run_attempt) ORDER BY run_id",
      {head_sha, repo.key()});
  if (!rows) return tl::unexpected(rows.error());
  std::vector<std::string> runs;
  for (const auto& row : *rows)
    if (is_actions_run(row.text(0))) runs.push_back(row.text(0));
  return runs;
}

const Backend* at_l3(const Allowlist& allowlist, const base::RepoName& repo) {
  const Backend* backend = allowlist.find(repo);
  return backend != nullptr && backend->level >= Level::L3 ? backend : nullptr;
}

}  // namespace

Result<Asked> accept_label(store::Store& store, const Allowlist& allowlist,
                           const CheckOptions& options, std::string_view delivery_id,
                           const UpstreamEvent& event, std::string_view label, base::Time now) {
  const std::string_view device = label.substr(std::min(options.label_prefix.size(), label.size()));
  return once(store, delivery_id, event.type, event.action, now,
              [&](store::Tx& tx, std::int64_t) -> Result<std::vector<std::string>> {
                if (auto noted = note_pull_request(tx, event, now); !noted)
                  return tl::unexpected(noted.error());
                if (event.action != "labeled") return std::vector<std::string>{};
                return show_labeled(tx, options, allowlist, event, device, now);
              });
}

Result<Asked> accept_rerun(store::Store& store, const Allowlist& allowlist,
                           const CheckOptions& options, std::string_view delivery_id,
                           std::string_view type, const json::value& body, base::Time now) {
  constexpr std::string_view action = "rerequested";
  if (type == "check_suite") {
    const auto suite = base::require_int(body, "check_suite.id");
    if (!suite) return ignore("no check suite: " + suite.error().message);
    if (*suite < 1)
      return base::fail(base::Fault::invalid_input,
                        fmt::format("check_suite.id: expected a number from 1, found {}", *suite));
    return once(store, delivery_id, type, action, now,
                [&](store::Tx& tx, std::int64_t delivery) -> Result<std::vector<std::string>> {
                  GithubCall call{.kind = CallKind::list_check_suite,
                                  .delivery = delivery,
                                  .repo = options.upstream};
                  call.subject = json::serialize(json::array{"check_suite", *suite});
                  call.order_key = call.subject;
                  call.says = fmt::format("rerun for {}", delivery);
                  call.payload = json::serialize(json::object{{"suite", *suite}});
                  if (auto queued = queue_once(tx, call, now); !queued)
                    return tl::unexpected(queued.error());
                  return std::vector<std::string>{};
                });
  }
  const auto name = base::optional_string(body, "check_run.name");
  const auto external_id = base::optional_string(body, "check_run.external_id");
  const auto head_sha = base::optional_string(body, "check_run.head_sha");
  const std::string_view named = name && *name ? std::string_view{**name} : std::string_view{};
  const std::string_view id =
      external_id && *external_id ? std::string_view{**external_id} : std::string_view{};
  const auto not_listed = [](const base::RepoName& repo) {
    return ignore("not L3+: " + repo.full_name() + " is not listed at L3 or above");
  };
  if (const auto stable = parse_stable_check(named, id)) {
    const Backend* backend = at_l3(allowlist, *stable);
    if (backend == nullptr) return not_listed(*stable);
    const std::string sha = head_sha && *head_sha ? **head_sha : std::string{};
    return once(store, delivery_id, type, action, now,
                [&](store::Tx& tx, std::int64_t delivery) -> Result<std::vector<std::string>> {
                  const auto runs = failed_runs(tx, backend->repo, sha);
                  if (!runs) return tl::unexpected(runs.error());
                  if (runs->empty()) return std::vector<std::string>{};
                  return queue_reruns(tx, delivery, backend->repo, *runs, now);
                });
  }
  const auto shown = parse_check_run(named, id);
  if (!shown) return ignore("not a crcr check run");
  const Backend* backend = at_l3(allowlist, shown->repo);
  if (backend == nullptr) return not_listed(shown->repo);
  if (!is_actions_run(shown->run_id))
    return ignore("run " + shown->run_id + " of " + backend->repo.full_name() +
                  " is not on GitHub Actions, which alone can be told to run again: start it where "
                  "it ran (Buildkite: Rebuild)");
  return once(store, delivery_id, type, action, now, [&](store::Tx& tx, std::int64_t delivery) {
    return queue_reruns(tx, delivery, backend->repo, {shown->run_id}, now);
  });
}

}  // namespace crosscheck::relay
