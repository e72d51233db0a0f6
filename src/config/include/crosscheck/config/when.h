#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"

// The condition of an entry: on which platform, with which torch, on which device it holds.
namespace crosscheck::config {

// A release of torch as PEP 440 orders them: 2.14.0.dev1 < 2.14.0a0 < 2.14.0rc1 < 2.14.0. What
// stands behind `+` does not count.
struct Version {
  enum class Stage : std::uint8_t { dev, alpha, beta, candidate, final, post };

  std::array<std::uint32_t, 4> release = {};
  Stage stage = Stage::final;
  std::uint32_t number = 0;  // of the stage
  friend auto operator<=>(const Version&, const Version&) = default;
};
// "2.13", "2.13.0+cpu", "2.14.0a0+git1234", "2.14.0.dev20261101", "2.14.0rc1".
[[nodiscard]] base::Result<Version> parse_version(std::string_view text);

// The versions between two ends; an end that is missing is open.
struct VersionRange {
  struct End {
    Version at;
    bool included = true;
    friend bool operator==(const End&, const End&) = default;
  };
  std::optional<End> from = {};
  std::optional<End> to = {};

  [[nodiscard]] bool contains(const Version& version) const;
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] bool is_within(const VersionRange& other) const;
  [[nodiscard]] VersionRange intersect(const VersionRange& other) const;
  friend bool operator==(const VersionRange&, const VersionRange&) = default;
};
// ">=2.12,<2.14", "==2.13.0". An empty range is an error.
[[nodiscard]] base::Result<VersionRange> parse_range(std::string_view text);

// Where a test would run. `platform` is the machine as uname calls it (x86_64, s390x); the device
// is known by its type ("refdev") and its model. What is not known is not given.
struct Circumstances {
  std::optional<std::string> platform = {};
  std::optional<Version> torch = {};
  std::vector<std::string> devices = {};  // the names of the one device
};

// All that is given must hold; of a list, one.
struct When {
  std::vector<std::string> platforms = {};  // sorted, each once; empty: any
  std::vector<std::string> devices = {};    // the same
  std::optional<VersionRange> torch = {};
  friend bool operator==(const When&, const When&) = default;

  [[nodiscard]] bool is_always() const { return *this == When{}; }
  // The condition that asks for something that `circumstances` do not tell: "platform", "device"
  // or "torch".
  [[nodiscard]] std::optional<std::string_view> unknown(const Circumstances& circumstances) const;
  // A condition on what is not known does not hold.
  [[nodiscard]] bool holds(const Circumstances& circumstances) const;
  // Wherever this holds, `other` does.
  [[nodiscard]] bool implies(const When& other) const;
  // Holds where both do; nothing where that is nowhere.
  [[nodiscard]] std::optional<When> meet(const When& other) const;
};
[[nodiscard]] std::string to_string(const VersionRange& range);
[[nodiscard]] std::string to_string(const When& when);  // "always", "platform s390x, torch <2.14"

}  // namespace crosscheck::config
