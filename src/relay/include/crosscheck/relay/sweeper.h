#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/allowlist_file.h"
#include "crosscheck/relay/checks.h"
#include "crosscheck/store/lease.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

struct SweeperOptions {
  base::Duration job_timeout = std::chrono::hours{6};  // a job that is silent for longer has ended
  base::Duration interval = std::chrono::seconds{5};
  bool forwards = false;  // another HUD wants to know what was ended
};

// Ends jobs that went silent, and decides stable checks whose time has come. Of all relays on a
// store one does it. `step` is for one thread.
class Sweeper {
 public:
  // `checks`: null where nothing is shown on pull requests; outlives it, as the others do.
  Sweeper(store::Store& store, const base::Clock& clock, const AllowlistFile& allowlist,
          const CheckOptions* checks, SweeperOptions options);
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  // Handles one item of a pass; false at its end, after which the next call begins another:
  // `while (sweeper.step(now)) {}`. An item that fails is logged and left to the next pass.
  bool step(base::Time now);

  // Passes in a thread of its own until `stop`, while this process has the duty.
  void start();
  void stop();

 private:
  [[nodiscard]] base::Result<std::optional<std::int64_t>> next_job(base::Time now);
  [[nodiscard]] base::Result<std::optional<std::int64_t>> next_check(base::Time now);
  void end_job(std::int64_t job, base::Time now);
  void decide_check(std::int64_t check, base::Time now);
  void run();

  store::Store& store_;
  const base::Clock& clock_;
  const AllowlistFile& allowlist_;
  const CheckOptions* const checks_;
  const SweeperOptions options_;
  store::Lease lease_;
  std::int64_t after_job_ = 0;  // of this pass
  std::int64_t after_check_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace crosscheck::relay
