#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// Requests of one kind that were refused for one reason.
struct Refusals {
  std::string kind;
  std::string reason;  // a fault's name
  std::int64_t count = 0;
  base::Time last_at{};
  std::string last_detail;
};

// Counters of this process, in Prometheus' text form together with what the store holds.
// Thread-safe.
class Metrics {
 public:
  // One request of `kind` (webhook, callback, results) answered with `status`.
  void count(std::string_view kind, int status);
  // Why a request of `kind` was refused, with the words it was answered.
  void refused(std::string_view kind, std::string_view reason, std::string_view detail,
               base::Time now);
  // Since the start of this process, most frequent first.
  [[nodiscard]] std::vector<Refusals> refusals() const;
  // What stands in the outbox is read at this moment.
  [[nodiscard]] base::Result<std::string> text(store::Store& store, base::Time now,
                                               std::string_view version) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
  std::map<std::pair<std::string, std::string>, Refusals> refusals_;
};

}  // namespace crosscheck::relay
