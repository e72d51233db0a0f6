#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "crosscheck/base/process.h"
#include "crosscheck/net/http.h"
#include "crosscheck/relay/target.h"

namespace crosscheck::relay {

struct LocalTargetOptions {
  std::map<std::string, std::string> commands;  // repo key → what /bin/sh -c runs
  std::filesystem::path jobs_dir;               // logs and event files
  std::string server_url;                       // CROSSCHECK_RELAY_URL
  std::string audience = {};                    // CROSSCHECK_OIDC_AUDIENCE; empty: not set
  // The bearer with which the job asks this server for its OIDC token.
  std::function<std::string(const Dispatch&, const std::string& run_id)> request_token;
  // Called when a job's command has ended, by itself ("failure" is what it did not report then) or
  // because this target stops ("cancelled"). On the target's thread; may wait for the store.
  std::function<void(const base::RepoName& repo, const std::string& delivery_id,
                     const std::string& run_id, std::string_view conclusion)>
      ended = {};
  std::size_t concurrency = 1;
};

// Runs a command for each dispatch, in the environment that a GitHub workflow started by
// `repository_dispatch` has, so that `crosscheck report` has one way. Sent means started. Output
// goes to <jobs_dir>/<dispatch id>.log. A job outlives a relay that is killed, and reports to the
// next one.
class LocalTarget final : public DispatchTarget {
 public:
  explicit LocalTarget(LocalTargetOptions options);
  ~LocalTarget() override;  // stops with no grace

  void send(Dispatch dispatch, std::function<void(Answer)> done) override;
  [[nodiscard]] std::size_t room() const override;

  // GET /<owner>/<repo>/actions/runs/<run id>: what the job has printed, where GitHub would show
  // it. Nothing for other paths.
  [[nodiscard]] std::optional<net::Response> handle(const net::Request& request) const;

  // Ends running jobs (TERM, KILL after `grace`) and starts no more. May be called twice.
  void stop(base::Duration grace);
  [[nodiscard]] std::size_t running() const;

  // Unique in a store, also when a dispatch is started a second time.
  [[nodiscard]] static std::string run_id_of(const Dispatch& dispatch);

 private:
  struct Waiting {
    Dispatch dispatch;
    std::function<void(Answer)> done;
  };
  struct Running;

  void run();
  void end(const Running& job, const base::ExitStatus& status, bool stopped) const;
  [[nodiscard]] Answer begin(const Dispatch& dispatch);

  const LocalTargetOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Waiting> waiting_;
  std::size_t running_count_ = 0;
  bool stopping_ = false;
  base::Duration grace_{0};
  std::vector<std::unique_ptr<Running>> running_;  // of the thread alone
  std::thread thread_;
};

}  // namespace crosscheck::relay
