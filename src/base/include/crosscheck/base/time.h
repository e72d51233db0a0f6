#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

namespace crosscheck::base {

// UTC, microseconds since 1970. Stored as BIGINT microseconds, shown as RFC 3339 with `Z`.
using Time = std::chrono::sys_time<std::chrono::microseconds>;
using Duration = std::chrono::microseconds;

// Where "now" comes from. Everything that decides by time takes a Clock or a `now`.
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Time now() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override;
};

// Stands still until moved. Thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Time start) : now_{start.time_since_epoch().count()} {}
  [[nodiscard]] Time now() const override;
  void advance(Duration by);
  void set(Time to);

 private:
  std::int64_t now_;  // accessed through std::atomic_ref
};

[[nodiscard]] inline std::int64_t to_micros(Time time) { return time.time_since_epoch().count(); }
[[nodiscard]] inline Time from_micros(std::int64_t micros) { return Time{Duration{micros}}; }

// "2026-05-04T20:48:28Z", with ".123456" only when there are fractions.
[[nodiscard]] std::string to_rfc3339(Time time);
// Accepts `Z` and numeric offsets, and up to nine fraction digits (cut to microseconds).
[[nodiscard]] Result<Time> parse_rfc3339(std::string_view text);

// "1.2 s", "3 min 20 s", "2 h 5 min": for people.
[[nodiscard]] std::string to_human(Duration duration);

}  // namespace crosscheck::base
