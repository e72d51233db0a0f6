#include <algorithm>
#include <array>
#include <vector>

#include "crosscheck/base/file.h"
#include "crosscheck/report/report.h"
#include "url.h"

namespace crosscheck::report {
namespace {

using base::Fault;

// A repository_dispatch event with its client_payload is 64 KiB at GitHub.
constexpr std::size_t k_event_limit = std::size_t{32} << 20;

// Collects what is missing, so that a person fixes a workflow once.
class Needs {
 public:
  Needs(const Environment& environment) : environment_{environment} {}  // NOLINT(*-explicit-*)
  std::string take(const std::optional<std::string>& given, std::string_view name) {
    if (given && !given->empty()) return *given;
    if (auto value = environment_(name)) return *value;
    missing_.emplace_back(name);
    return {};
  }
  [[nodiscard]] base::Result<void> check() const {
    if (missing_.empty()) return {};
    std::string names;
    for (const auto& name : missing_) names += (names.empty() ? "" : ", ") + name;
    return base::fail(Fault::usage, "not set: " + names,
                      "GitHub Actions and crosscheck's local target set the GITHUB_ ones; give "
                      "CROSSCHECK_RELAY_URL (or --relay) the relay's address");
  }

 private:
  const Environment& environment_;
  std::vector<std::string> missing_;
};

std::string without_trailing_slashes(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

base::Result<JobContext> read_context(const Environment& environment, const Overrides& overrides) {
  Needs needs{environment};
  JobContext job;
  job.relay_url = without_trailing_slashes(needs.take(overrides.relay_url, "CROSSCHECK_RELAY_URL"));
  const auto event_file = needs.take(overrides.event_file, "GITHUB_EVENT_PATH");
  job.workflow = needs.take(overrides.workflow, "GITHUB_WORKFLOW");
  job.job = needs.take(overrides.job, "GITHUB_JOB");
  job.run_id = needs.take({}, "GITHUB_RUN_ID");
  const auto repository = needs.take({}, "GITHUB_REPOSITORY");
  if (auto ready = needs.check(); !ready) return tl::unexpected(ready.error());
  job.run_attempt = environment("GITHUB_RUN_ATTEMPT").value_or("1");
  job.check_run_id =
      overrides.check_run_id ? overrides.check_run_id : environment("CROSSCHECK_CHECK_RUN_ID");
  job.url =
      without_trailing_slashes(environment("GITHUB_SERVER_URL").value_or("https://github.com")) +
      "/" + repository + "/actions/runs/" + job.run_id;
  if (auto safe = may_carry_token(job.relay_url, "the relay's address", environment); !safe) {
    return tl::unexpected(safe.error());
  }

  const auto text = base::read_file(event_file, k_event_limit);
  if (!text) return tl::unexpected(text.error());
  auto event = base::parse_json(*text, event_file);
  if (!event) return tl::unexpected(event.error());
  const auto event_type = base::require_string(*event, "client_payload.event_type");
  const auto delivery_id = base::require_string(*event, "client_payload.delivery_id");
  if (!event_type || !delivery_id) {
    return base::fail(Fault::invalid_input,
                      event_file + ": " + (event_type ? delivery_id : event_type).error().message,
                      "run this in a workflow started by `repository_dispatch` from a relay");
  }
  job.event_type = *event_type;
  job.delivery_id = *delivery_id;
  const auto* payload = base::find(*event, "client_payload.payload");
  job.payload = payload != nullptr ? *payload : base::json::value{base::json::object{}};
  return job;
}

}  // namespace crosscheck::report
