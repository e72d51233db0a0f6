#include "crosscheck/base/time.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace crosscheck::base {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Time k_first = std::chrono::sys_days{std::chrono::year{0} / 1 / 1};
constexpr Time k_last =
    Time{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31} + days{1}} - Duration{1};

// Reads exactly `n` digits at the front.
bool take_number(std::string_view& text, std::size_t n, unsigned& value) {
  if (text.size() < n) return false;
  value = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = value * 10 + static_cast<unsigned>(text[i] - '0');
  }
  text.remove_prefix(n);
  return true;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

Time SystemClock::now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

Time ManualClock::now() const {
  // atomic_ref has no const form before C++26.
  return from_micros(std::atomic_ref{const_cast<std::int64_t&>(now_)}.load());
}

void ManualClock::advance(Duration by) { std::atomic_ref{now_}.fetch_add(by.count()); }

void ManualClock::set(Time to) { std::atomic_ref{now_}.store(to_micros(to)); }

std::string to_rfc3339(Time time) {
  const Time shown = std::clamp(time, k_first, k_last);
  const auto day = std::chrono::floor<days>(shown);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{shown - day};
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  if (clock.subseconds().count() != 0) text += fmt::format(".{:06}", clock.subseconds().count());
  text += 'Z';
  return text;
}

Result<Time> parse_rfc3339(std::string_view text) {
  const auto bad = [all = text](std::string_view why) {
    return fail(Fault::invalid_input,
                fmt::format("'{}' is not a time of RFC 3339 (2026-05-04T20:48:28Z): {}",
                            all.substr(0, 64), why));
  };
  unsigned year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!take_number(text, 4, year) || !take(text, '-') || !take_number(text, 2, month) ||
      !take(text, '-') || !take_number(text, 2, day)) {
    return bad("the date is not YYYY-MM-DD");
  }
  if (!take(text, 'T') && !take(text, 't')) return bad("no T after the date");
  if (!take_number(text, 2, hour) || !take(text, ':') || !take_number(text, 2, minute) ||
      !take(text, ':') || !take_number(text, 2, second)) {
    return bad("the time of day is not HH:MM:SS");
  }
  const std::chrono::year_month_day date{std::chrono::year{static_cast<int>(year)},
                                         std::chrono::month{month}, std::chrono::day{day}};
  if (!date.ok()) return bad("there is no such day");
  // 60 is a leap second: the moment after :59.
  if (hour > 23 || minute > 59 || second > 60) return bad("there is no such time of day");

  std::int64_t micros = 0;
  if (take(text, '.')) {
    std::int64_t unit = 100'000;
    std::size_t digits = 0;
    for (unsigned digit = 0; take_number(text, 1, digit); ++digits, unit /= 10) {
      micros += unit * digit;
    }
    if (digits == 0 || digits > 9) return bad("a fraction has one to nine digits");
  }

  Duration offset{0};
  if (!take(text, 'Z') && !take(text, 'z')) {
    const bool east = take(text, '+');
    unsigned offset_hour = 0, offset_minute = 0;
    if ((!east && !take(text, '-')) || !take_number(text, 2, offset_hour) || !take(text, ':') ||
        !take_number(text, 2, offset_minute)) {
      return bad("it ends in neither Z nor an offset like +02:00");
    }
    if (offset_hour > 23 || offset_minute > 59) return bad("there is no such offset");
    offset = hours{offset_hour} + minutes{offset_minute};
    if (!east) offset = -offset;
  }
  if (!text.empty()) return bad("something follows the time");

  const Time time = std::chrono::sys_days{date} + hours{hour} + minutes{minute} + seconds{second} +
                    Duration{micros} - offset;
  if (time < k_first || time > k_last) return bad("it is outside the years 0 to 9999");
  return time;
}

std::string to_human(Duration duration) {
  if (duration < Duration{0}) {
    if (duration == Duration::min()) duration += Duration{1};
    return "-" + to_human(-duration);
  }
  const std::int64_t us = duration.count();
  const std::int64_t s = us / 1'000'000;
  if (us == 0) return "0 s";
  if (us < 1'000) return fmt::format("{} µs", us);
  if (s < 1) return fmt::format("{} ms", us / 1'000);
  if (s < 60) return fmt::format("{}.{} s", s, us / 100'000 % 10);
  if (s < 3'600) return fmt::format("{} min {} s", s / 60, s % 60);
  if (s < 86'400) return fmt::format("{} h {} min", s / 3'600, s / 60 % 60);
  return fmt::format("{} d {} h", s / 86'400, s / 3'600 % 24);
}

}  // namespace crosscheck::base
