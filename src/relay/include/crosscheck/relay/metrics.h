#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// Counters of this process, in Prometheus' text form together with what the store holds.
// Thread-safe.
class Metrics {
 public:
  // One request of `kind` (webhook, callback, results) answered with `status`.
  void count(std::string_view kind, int status);
  // What stands in the outbox is read at this moment.
  [[nodiscard]] base::Result<std::string> text(store::Store& store, base::Time now,
                                               std::string_view version) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
};

}  // namespace crosscheck::relay
