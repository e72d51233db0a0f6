#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/relay/check_run.h"

// A check run's name and external id, as GitHub gives them back, and a job's texts on their way to
// its output: the first line is the one, the rest the other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace relay = crosscheck::relay;
  const std::string_view text{reinterpret_cast<const char*>(data), size};  // NOLINT
  const auto end = text.find('\n');
  const std::string_view first = text.substr(0, end);
  const std::string_view rest =
      end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  const auto shown = relay::parse_check_run(first, rest);
  if (shown && shown->run_id.empty()) std::abort();
  static_cast<void>(relay::parse_stable_check(first, rest));

  relay::JobToShow job{.repo = crosscheck::base::RepoName::parse("o/r").value()};
  job.workflow = crosscheck::base::to_utf8(first);
  job.job_name = job.workflow;
  job.run_id = crosscheck::base::to_utf8(rest);
  job.job.state = relay::JobState::completed;
  job.job.conclusion = crosscheck::base::to_utf8(rest, 64);
  job.failed_tests = {{std::string{rest}, "failed", std::string{first}}};
  const auto body = relay::check_run_of(job);
  for (const auto& member : body.at("output").as_object())
    if (member.value().as_string().size() > relay::k_output_limit ||
        !crosscheck::base::is_utf8(member.value().as_string()))
      std::abort();
  return 0;
}
