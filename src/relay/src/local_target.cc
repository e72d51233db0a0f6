#include "crosscheck/relay/local_target.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <utility>

#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"
#include "crosscheck/base/process.h"
#include "crosscheck/github/payload.h"

namespace crosscheck::relay {
namespace {

namespace log = base::log;
namespace json = base::json;

constexpr std::size_t k_shown_log = 4 * 1024 * 1024;
constexpr auto k_look_again = std::chrono::milliseconds{50};

// With the payload that GitHub would be given: a job echoes it in its reports, which have a limit.
base::Result<std::string> event_file(const Dispatch& dispatch) {
  const auto quote = [](const std::string& text) { return json::serialize(json::value(text)); };
  const auto payload =
      github::make_client_payload(dispatch.event_type, dispatch.delivery_id, *dispatch.body);
  if (!payload) return tl::unexpected(payload.error());
  return R"({"action":)" + quote(dispatch.event_type) + R"(,"repository":{"full_name":)" +
         quote(dispatch.repo.full_name()) + R"(},"client_payload":)" + payload->text + "}\n";
}

}  // namespace

struct LocalTarget::Running {
  base::Process process;
  base::RepoName repo;
  std::string delivery_id;
  std::string run_id;
  std::string log_file;
};

LocalTarget::LocalTarget(LocalTargetOptions options)
    : options_{std::move(options)}, thread_{[this] { run(); }} {}

LocalTarget::~LocalTarget() { stop(base::Duration{0}); }

std::string LocalTarget::run_id_of(const Dispatch& dispatch) {
  return std::to_string(dispatch.id * 1000 + dispatch.attempt % 1000);
}

void LocalTarget::send(Dispatch dispatch, std::function<void(Answer)> done) {
  if (!options_.commands.contains(dispatch.repo.key())) {
    done({Answer::Kind::rejected, std::nullopt,
          "no local command for " + dispatch.repo.full_name() + " (--command " +
              dispatch.repo.full_name() + "=…)"});
    return;
  }
  {
    const std::lock_guard lock{mutex_};
    if (!stopping_) {
      waiting_.push_back({std::move(dispatch), std::move(done)});
      wake_.notify_all();
      return;
    }
  }
  done({Answer::Kind::retry_later, std::nullopt, "the relay is stopping"});
}

std::size_t LocalTarget::room() const {
  const std::lock_guard lock{mutex_};
  const std::size_t used = running_count_ + waiting_.size();
  return stopping_ || used >= options_.concurrency ? 0 : options_.concurrency - used;
}

std::optional<net::Response> LocalTarget::handle(const net::Request& request) const {
  const auto parts = net::split_path(request.path);
  if (parts.size() != 5 || parts[2] != "actions" || parts[3] != "runs") return std::nullopt;
  if (request.method != "GET" && request.method != "HEAD") return std::nullopt;
  std::int64_t run_id = 0;
  const std::string_view digits = parts[4];
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), run_id);
  if (error != std::errc{} || end != digits.data() + digits.size() || run_id < 1000)
    return std::nullopt;
  const auto log_path = options_.jobs_dir / (std::to_string(run_id / 1000) + ".log");
  const auto text = base::read_file(log_path, k_shown_log);
  if (!text && text.error().fault == base::Fault::too_large)
    return net::Response::text(200,
                               "The output is too long to be shown here: " + log_path.string());
  if (!text) return std::nullopt;
  return net::Response::text(200, base::to_utf8(*text));
}

std::size_t LocalTarget::running() const {
  const std::lock_guard lock{mutex_};
  return running_count_;
}

void LocalTarget::stop(base::Duration grace) {
  {
    const std::lock_guard lock{mutex_};
    if (!stopping_) grace_ = grace;
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Answer LocalTarget::begin(const Dispatch& dispatch) {
  const auto refuse = [](std::string why) {
    return Answer{Answer::Kind::retry_later, std::nullopt, std::move(why)};
  };
  std::error_code error;
  std::filesystem::create_directories(options_.jobs_dir, error);
  if (error) return refuse(options_.jobs_dir.string() + ": " + error.message());
  const std::string run_id = run_id_of(dispatch);
  const auto stem = options_.jobs_dir / std::to_string(dispatch.id);
  const std::string event_path = std::filesystem::absolute(stem.string() + ".event.json").string();
  const std::string log_path = stem.string() + ".log";
  const auto event = event_file(dispatch);
  if (!event) return {Answer::Kind::rejected, std::nullopt, event.error().message};
  if (auto written = base::write_file_atomically(event_path, *event, 0600); !written)
    return refuse(written.error().message);
  const base::Fd out{::open(log_path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644)};
  if (!out) return refuse(log_path + ": " + std::strerror(errno));

  base::ProcessSpec spec;
  spec.arguments = {"/bin/sh", "-c", options_.commands.at(dispatch.repo.key())};
  spec.environment = {
      {"GITHUB_EVENT_PATH", event_path},
      {"GITHUB_EVENT_NAME", "repository_dispatch"},
      {"GITHUB_REPOSITORY", dispatch.repo.full_name()},
      {"GITHUB_RUN_ID", run_id},
      {"GITHUB_RUN_ATTEMPT", "1"},
      {"GITHUB_WORKFLOW", "local"},
      {"GITHUB_JOB", "test"},
      {"GITHUB_SERVER_URL", options_.server_url},
      {"CROSSCHECK_RELAY_URL", options_.server_url},
      {"ACTIONS_ID_TOKEN_REQUEST_URL", options_.server_url + "/local/oidc/token?version=1"},
      {"ACTIONS_ID_TOKEN_REQUEST_TOKEN", options_.request_token(dispatch, run_id)},
      {"CROSSCHECK_OIDC_AUDIENCE",
       options_.audience.empty() ? std::nullopt : std::optional{options_.audience}},
      // The tokens go to this machine, whatever address it has.
      {"CROSSCHECK_ALLOW_HTTP", "1"},
      // The relay's own secrets and store are not the job's.
      {"GITHUB_APP_SECRET", std::nullopt},
      {"GITHUB_APP_PRIVATE_KEY", std::nullopt},
      {"CROSSCHECK_DB", std::nullopt},
      {"CROSSCHECK_SETTINGS", std::nullopt},
  };
  spec.descriptors = {{out.get(), STDOUT_FILENO}, {out.get(), STDERR_FILENO}};
  auto process = base::Process::spawn(spec);
  if (!process) return refuse(process.error().message);
  log::info("local_job.started", {{"delivery", dispatch.delivery_id},
                                  {"repo", dispatch.repo.full_name()},
                                  {"run_id", run_id},
                                  {"log", log_path}});
  running_.push_back(std::make_unique<Running>(
      Running{std::move(*process), dispatch.repo, dispatch.delivery_id, run_id, log_path}));
  return {};
}

void LocalTarget::end(const Running& job, const base::ExitStatus& status, bool stopped) const {
  log::write(status.ok() && !stopped ? log::Level::info : log::Level::warning,
             stopped ? "local_job.stopped" : "local_job.ended",
             {{"delivery", job.delivery_id},
              {"repo", job.repo.full_name()},
              {"status", base::to_string(status)},
              {"log", job.log_file}});
  if (options_.ended)
    options_.ended(job.repo, job.delivery_id, job.run_id, stopped ? "cancelled" : "failure");
}

void LocalTarget::run() {
  while (true) {
    Waiting next{.dispatch = {.repo = base::RepoName::parse("none/none").value()}, .done = nullptr};
    {
      std::unique_lock lock{mutex_};
      const auto ready = [&] {
        return stopping_ || (!waiting_.empty() && running_count_ < options_.concurrency);
      };
      // Nobody tells that a child has ended (SIGCHLD is the whole program's): look while one runs.
      if (running_.empty())
        wake_.wait(lock, ready);
      else
        wake_.wait_for(lock, k_look_again, ready);
      if (stopping_) break;
      if (ready()) {
        next = std::move(waiting_.front());
        waiting_.pop_front();
        ++running_count_;
      }
    }
    if (next.done) {
      const Answer answer = begin(next.dispatch);
      if (answer.kind != Answer::Kind::sent) {
        const std::lock_guard lock{mutex_};
        --running_count_;
      }
      next.done(answer);
    }
    const auto ended = std::erase_if(running_, [this](const std::unique_ptr<Running>& job) {
      const auto status = job->process.poll();
      if (status) end(*job, *status, false);
      return status.has_value();
    });
    const std::lock_guard lock{mutex_};
    running_count_ -= ended;
  }

  std::deque<Waiting> unsent;
  {
    const std::lock_guard lock{mutex_};
    unsent.swap(waiting_);
  }
  for (auto& waiting : unsent)
    waiting.done({Answer::Kind::retry_later, std::nullopt, "the relay is stopping"});
  // All are told at once; the grace is theirs together.
  for (const auto& job : running_) job->process.signal(SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + grace_;
  for (const auto& job : running_) {
    const auto left =
        std::chrono::duration_cast<base::Duration>(deadline - std::chrono::steady_clock::now());
    end(*job, job->process.stop(std::max(left, base::Duration{0})), true);
  }
  running_.clear();
  const std::lock_guard lock{mutex_};
  running_count_ = 0;
}

}  // namespace crosscheck::relay
