#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/profile/detect.h"
#include "crosscheck/profile/points.h"

// A backend's profile, the file crosscheck.yaml (docs/profile.md): what it is, which extension
// points of PyTorch it uses, what it promises, and where its source, documents, operators and tests
// lie.
namespace crosscheck::profile {

struct Profile {
  std::string name;
  std::string device;         // as torch.device has it
  std::string device_module;  // the Python module that registers the device; empty: torch itself
  std::set<std::string, std::less<>> extension_points;
  // What it leaves out of what its extension points would allow: areas, and data types that are not
  // among `dtypes` where there are any.
  std::set<std::string, std::less<>> without;
  std::vector<std::string> dtypes;
  // All relative to the profile's own folder.
  std::vector<std::string> sources;
  std::vector<std::string> documents;
  std::vector<std::string> operators;  // files that list them
  std::vector<std::string> tests;

  [[nodiscard]] bool uses(std::string_view point) const { return extension_points.contains(point); }
};

struct Loaded {
  std::optional<Profile> profile;  // nothing where it is no YAML, or none of a profile's
  std::vector<base::Error>
      findings;  // each message begins with file:line:column; empty: it is good
};

inline constexpr std::size_t k_profile_limit = std::size_t{1} << 20;  // bytes

// Strict: unknown keys, extension points and areas, values of another type, missing names and
// devices are findings, all of them.
[[nodiscard]] Loaded parse_profile(std::string_view text, std::string_view source,
                                   const Points& points);

// The same from a file, and then what it names must be there.
[[nodiscard]] Loaded check_profile(const std::filesystem::path& file, const Points& points);

// Without findings, or all of them as one error.
[[nodiscard]] base::Result<Profile> load_profile(const std::filesystem::path& file,
                                                 const Points& points);

// What the profile and the source that it names say differently; notes, each begins with a place.
[[nodiscard]] std::vector<std::string> compare(const Profile& profile, std::string_view source,
                                               const Detected& found);

[[nodiscard]] base::json::object to_json(const Profile& profile);
// The profile as a file that parse_profile reads.
[[nodiscard]] std::string to_yaml(const Profile& profile);
// A profile to begin with, of what the source shows, each extension point with where it was seen.
[[nodiscard]] std::string to_yaml(const Detected& found, std::string_view name);

}  // namespace crosscheck::profile
