#include <array>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "crosscheck/base/gzip.h"
#include "crosscheck/base/results_limits.h"
#include "crosscheck/net/client.h"
#include "crosscheck/report/report.h"
#include "results_file.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Fault;

struct Options {
  report::Overrides overrides;
  std::string results;
  std::string conclusion;
  std::string artifact_url;
  bool dry_run = false;
};

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string{name}.c_str());
  if (value == nullptr || *value == '\0') return {};
  return value;
}

tl::unexpected<base::Error> too_large(const std::string& path, std::string_view what) {
  return base::fail(Fault::too_large,
                    path + ": more " + std::string{what} + " than a relay takes (" +
                        std::to_string(base::k_results_file_limit >> 20U) + " MiB gzipped, " +
                        std::to_string(base::k_results_text_limit >> 20U) + " MiB unpacked, " +
                        std::to_string(base::k_results_count_limit) + " results)",
                    "split the run, or shorten what its tests print");
}

// A file that a relay takes, gzipped.
base::Result<ResultsFile> read_results(const std::string& path) {
  auto file = read_results_file(path, base::k_results_text_limit);
  if (!file) return file;
  if (file->text.size() > base::k_results_text_limit) return too_large(path, "unpacked");
  if (file->gzipped.empty()) file->gzipped = base::gzip(file->text);
  if (file->gzipped.size() > base::k_results_file_limit) return too_large(path, "gzipped");
  if (file->run.results.size() > base::k_results_count_limit) return too_large(path, "of results");
  return file;
}

ExitCode print(const Globals& globals, std::string_view status, report::Answer answer) {
  if (globals.json) {
    std::printf("%s\n",
                boost::json::serialize(
                    boost::json::object{{"status", status}, {"answer", report::to_string(answer)}})
                    .c_str());
  } else if (answer == report::Answer::ignored) {
    std::printf("%.*s: the relay ignores results of this repository (not listed, or at level L1)\n",
                static_cast<int>(status.size()), status.data());
  } else {
    const auto word = report::to_string(answer);
    std::printf("%.*s: %.*s\n", static_cast<int>(status.size()), status.data(),
                static_cast<int>(word.size()), word.data());
  }
  return ExitCode::ok;
}

// No results although --results is given: they cannot be read. A run that died before it wrote them
// still ends, as a failure.
base::Result<report::Completion> completion_of(const Options& options,
                                               const std::optional<ResultsFile>& results) {
  report::Completion completion;
  if (results) completion.results = results->run;
  if (!options.artifact_url.empty()) completion.artifact_url = options.artifact_url;
  if (options.conclusion.empty() && options.results.empty()) {
    return base::fail(Fault::usage, "neither --results nor --conclusion is given",
                      "give at least one: the conclusion is taken from the results");
  }
  std::string found = options.conclusion;
  if (!options.results.empty()) found = results ? report::conclude(results->run) : "failure";
  // `job.status` is still "success" when a step that may fail (continue-on-error) found failures.
  const bool overruled =
      options.conclusion.empty() || (options.conclusion == "success" && found == "failure");
  completion.conclusion = overruled ? found : options.conclusion;
  return completion;
}

base::Result<ExitCode> run(const Globals& globals, const Options& options, bool finish) {
  std::optional<ResultsFile> results;
  std::optional<base::Error> unread;
  if (finish && !options.results.empty()) {
    if (auto file = read_results(options.results)) {
      results = std::move(*file);
    } else {
      unread = file.error();
    }
  }
  report::Completion completion;
  if (finish) {
    auto made = completion_of(options, results);
    if (!made) return tl::unexpected(made.error());
    completion = std::move(*made);
  }
  auto job = report::read_context(environment, options.overrides);
  if (!job) return tl::unexpected(job.error());
  const base::SystemClock clock;
  if (options.dry_run) {
    const auto body =
        report::callback_body(*job, clock.now(), finish ? std::optional{completion} : std::nullopt);
    std::printf("%s", base::pretty_json(body).c_str());
    if (unread) return tl::unexpected(*unread);
    return ExitCode::ok;
  }
  const auto client = net::Client::create();
  auto token = report::token_source(environment, options.overrides, *client);
  if (!token) return tl::unexpected(token.error());
  report::Reporter reporter{std::move(*job), *client, std::move(*token), clock, {}};
  const auto answer =
      finish ? reporter.finish(std::move(completion),
                               results ? std::optional{results->gzipped} : std::nullopt)
             : reporter.start();
  if (!answer) return tl::unexpected(answer.error());
  const auto code = print(globals, finish ? "completed" : "in_progress", *answer);
  if (unread) {
    return base::fail(unread->fault, "reported as a failure without its tests: " + unread->message,
                      unread->remedy);
  }
  return code;
}

void add_common(CLI::App& command, Options& options) {
  auto& o = options.overrides;
  command.add_option("--relay", o.relay_url,
                     "The relay's address (default: $CROSSCHECK_RELAY_URL)");
  command.add_option("--event", o.event_file, "The event's file (default: $GITHUB_EVENT_PATH)");
  command.add_option("--workflow", o.workflow, "Workflow name (default: $GITHUB_WORKFLOW)");
  command.add_option("--job", o.job, "Job name, unique in the run (default: $GITHUB_JOB)");
  command.add_option("--check-run-id", o.check_run_id,
                     "Id of the job's check run (default: $CROSSCHECK_CHECK_RUN_ID)");
  command.add_option("--audience", o.audience,
                     "What the relay expects in tokens (default: $CROSSCHECK_OIDC_AUDIENCE, or "
                     "pytorch-cross-repo-ci-relay)");
  command.add_flag("--dry-run", options.dry_run, "Print the report's body and send nothing");
}

const Registration k_registration{
    "report", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command =
          app.add_subcommand("report", "Tell the relay that this CI job began, or how it ended");
      command->footer(
          "For a workflow started by a relay's repository_dispatch. Both steps may be repeated "
          "safely.\n"
          "Example:\n"
          "  crosscheck report start --relay https://relay.example\n"
          "  crosscheck run --device refdev --results results.jsonl.gz\n"
          "  crosscheck report finish --relay https://relay.example --results results.jsonl.gz");
      command->require_subcommand(1);
      const auto options = std::make_shared<Options>();

      auto* start = command->add_subcommand("start", "Report the job as in progress");
      start->footer(
          "Example:\n  crosscheck report start --relay https://relay.example --job test-shard-1");
      add_common(*start, *options);
      start->callback([&globals, &action, options] {
        action = [&globals, options] { return run(globals, *options, false); };
      });

      auto* finish =
          command->add_subcommand("finish", "Upload the results and report the job as completed");
      finish->footer(
          "Example:\n"
          "  crosscheck report finish --results results.jsonl.gz --conclusion \"${{ job.status "
          "}}\"");
      add_common(*finish, *options);
      finish->add_option("--results", options->results,
                         "Results of `crosscheck run` (JSON lines, may be gzipped)");
      finish
          ->add_option(
              "--conclusion", options->conclusion,
              "How the job ended (default: from the results; failures in them overrule success)")
          ->check(CLI::IsMember({"success", "failure", "cancelled", "timed_out", "skipped",
                                 "neutral", "action_required"}));
      finish->add_option("--artifact-url", options->artifact_url, "Where the job's artifacts lie");
      finish->callback([&globals, &action, options] {
        action = [&globals, options] { return run(globals, *options, true); };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
