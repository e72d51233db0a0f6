#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/profile/points.h"

// What a backend's source shows of the extension points that it uses.
namespace crosscheck::profile {

struct Evidence {
  std::string file;  // relative to the folder
  int line = 1;      // from 1
  std::string text;  // that line, cut
};

struct FoundPoint {
  std::string point;
  std::string says;
  std::vector<Evidence> evidence;  // by file and line; empty: implied
  std::string because;             // of an implied one
};

// A file or folder that was passed over and might have said something.
struct Skipped {
  std::string path;
  std::string why;
};

struct Detected {
  std::vector<FoundPoint> points;  // in the table's order
  std::string device;              // what the device is called, where the source says so
  std::optional<Evidence> device_at;
  std::vector<std::string> sources;  // the folders directly below that have evidence; "." for none
  std::vector<std::string> documents;
  std::vector<Skipped> skipped;
  std::size_t files = 0;  // read
};

inline constexpr std::size_t k_source_limit = std::size_t{4} << 20;  // bytes of one file

// What one file shows; adds to what `found` has of the points, which it has all of, in order.
void detect_in(Detected& found, const Points& points, std::string_view source, Language language,
               const std::string& file);

// Reads .cc, .cpp, .cxx, .cu, .h, .hpp, .mm, .py and their like below `folder`. Links are not
// followed. What cannot be read, is too large or in an encoding that is not ASCII's is skipped and
// named. `not_found` when there is no such folder.
[[nodiscard]] base::Result<Detected> detect(const std::filesystem::path& folder,
                                            const Points& points);

[[nodiscard]] base::json::object to_json(const Detected& found);
// For people: a line a point, with up to `most` places each.
[[nodiscard]] std::string to_text(const Detected& found, std::size_t most = 3);

}  // namespace crosscheck::profile
