#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// For how many days what is kept; 0: for ever. The rows of events, dispatches, jobs and runs stay,
// with their counts.
struct Retention {
  std::int64_t bodies_days = 30;  // of events and reports, as they came and as they were passed on
  std::int64_t logs_days = 30;    // of local jobs: files in `logs`
  std::int64_t results_days = 180;  // uploaded files, each test's outcome, upgrade gates' reports
  std::int64_t events_days = 365;   // who sent an event and its title; the audit log; dead tokens
  std::filesystem::path logs = {};  // empty: none
};

struct Pruned {
  std::int64_t bodies = 0;    // of events
  std::int64_t reports = 0;   // of jobs
  std::int64_t calls = 0;     // to GitHub, whose content went
  std::int64_t forwards = 0;  // reports that went to another HUD, or were refused there
  std::int64_t log_files = 0;
  std::int64_t result_files = 0;
  std::int64_t test_results = 0;
  std::int64_t upgrades = 0;
  std::int64_t events = 0;  // whose sender and title went
  std::int64_t audit_entries = 0;
  std::int64_t tokens = 0;
  [[nodiscard]] std::int64_t total() const;
};
enum class DryRun : std::uint8_t { no, yes };

// Removes what is past its retention, a bounded number of rows a transaction, so that nobody waits
// long for it; what is still to be sent keeps its body. Cut off anywhere, the next one goes on.
[[nodiscard]] base::Result<Pruned> prune(store::Store& store, const Retention& retention,
                                         base::Time now, DryRun dry_run,
                                         const std::function<bool()>& is_cut_off = {});

// Prunes once a day in a thread of its own, in one of the processes on a store. Thread-safe.
class DailyPrune {
 public:
  DailyPrune(store::Store& store, const base::Clock& clock, Retention retention);
  ~DailyPrune();
  DailyPrune(const DailyPrune&) = delete;
  DailyPrune& operator=(const DailyPrune&) = delete;
  void start();
  void stop();

 private:
  void run();

  store::Store& store_;
  const base::Clock& clock_;
  const Retention retention_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace crosscheck::relay
