#include "crosscheck/profile/detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "crosscheck/base/file.h"
#include "crosscheck/base/text.h"

namespace crosscheck::profile {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;
using base::Result;

constexpr std::size_t k_shown = 120;  // bytes of a line

std::optional<Language> language_of(const fs::path& path) {
  constexpr std::array<std::string_view, 13> k_cpp{".c",   ".cc", ".cpp", ".cxx", ".cu",
                                                   ".cuh", ".h",  ".hh",  ".hpp", ".hxx",
                                                   ".inl", ".mm", ".ipp"};
  const std::string name = path.filename().string();
  if (name.ends_with(".py") || name.ends_with(".pyi") || name == "pyproject.toml" ||
      name == "setup.cfg")
    return Language::python;
  const std::string extension = path.extension().string();
  if (std::ranges::find(k_cpp, extension) != k_cpp.end()) return Language::cpp;
  return std::nullopt;
}

bool is_test(const std::string& name) {
  return name.starts_with("test_") || name == "conftest.py" || name.ends_with("_test.py") ||
         name.ends_with("_test.cc") || name.ends_with("_test.cpp");
}

std::string line_at(std::string_view source, int line) {
  std::size_t from = 0;
  for (int i = 1; i < line && from != std::string_view::npos; ++i) {
    from = source.find('\n', from);
    if (from != std::string_view::npos) ++from;
  }
  if (from == std::string_view::npos) return {};
  std::string_view text = source.substr(from, source.find('\n', from) - from);
  text = text.substr(0, text.find('\r'));
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? "" : base::to_utf8(text.substr(begin), k_shown);
}

// What an argument names: a string, a name, or what the file sets that name to.
std::string device_named(const Mention& mention, std::size_t argument, const Mentions& mentions) {
  if (argument > mention.arguments.size() || mention.arguments[argument - 1].size() != 1) return {};
  const std::string_view word = mention.arguments[argument - 1].front();
  const auto constant = mentions.constants.find(word);
  if (constant == mentions.constants.end()) return std::string{word};
  return constant->second ? std::string{*constant->second} : "";
}

bool is_device_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

class Walk {
 public:
  Walk(const fs::path& root, const Points& points) : root_{root}, points_{points} {}

  Detected run() {
    for (const Point& point : points_.points)
      found_.points.push_back({point.name, point.says, {}, {}});
    folder(root_);
    finish();
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::string relative(const fs::path& path) const {
    return path.lexically_relative(root_).generic_string();
  }
  void skip(const fs::path& path, std::string why) {
    found_.skipped.push_back({base::to_utf8(relative(path)), std::move(why)});
  }

  void folder(const fs::path& path) {
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    fs::directory_iterator it{path, error};
    for (; !error && it != fs::directory_iterator{}; it.increment(error)) entries.push_back(*it);
    if (error) skip(path, error.message());
    std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) { return entry.path(); });
    for (const fs::directory_entry& entry : entries) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with('.')) continue;
      const bool link = entry.is_symlink(error);
      if (entry.is_directory(error)) {
        if (std::ranges::find(points_.skip, name) != points_.skip.end()) continue;
        if (link) {
          skip(entry.path(), "a link to a folder");
        } else {
          if (path == root_ && (name == "doc" || name == "docs")) found_.documents.push_back(name);
          folder(entry.path());
        }
        continue;
      }
      if (path == root_ && name.starts_with("README")) found_.documents.push_back(name);
      const auto language = language_of(entry.path());
      if (!language || is_test(name)) continue;
      if (!entry.is_regular_file(error)) {
        skip(entry.path(), link ? "a link that leads nowhere" : "not a regular file");
        continue;
      }
      file(entry.path(), *language);
    }
  }

  void file(const fs::path& path, Language language) {
    auto text = base::read_file(path, k_source_limit);
    if (!text) {
      if (text.error().fault == base::Fault::too_large)
        return skip(path, fmt::format("larger than {} MiB", k_source_limit >> 20));
      // "path: the system's reason"
      const std::string& message = text.error().message;
      const std::size_t colon = message.rfind(": ");
      return skip(path, colon == std::string::npos ? message : message.substr(colon + 2));
    }
    if (text->find('\0') != std::string::npos)
      return skip(path, "not in an encoding that extends ASCII (UTF-16?)");
    ++found_.files;
    const std::string name = base::to_utf8(relative(path));
    const auto count = [&] {
      std::size_t all = 0;
      for (const FoundPoint& point : found_.points) all += point.evidence.size();
      return all;
    };
    const std::size_t before = count();
    detect_in(found_, points_, *text, language, name);
    if (count() == before) return;
    const std::size_t slash = name.find('/');
    folders_.insert(slash == std::string::npos ? "." : name.substr(0, slash));
  }

  void finish() {
    found_.sources.assign(folders_.begin(), folders_.end());
    std::set<std::string, std::less<>> shown;
    for (const FoundPoint& point : found_.points)
      if (!point.evidence.empty()) shown.insert(point.point);
    for (FoundPoint& point : found_.points) {
      const Point& known = *points_.find(point.point);
      if (point.evidence.empty() && shown.contains(known.implied_by)) point.because = known.because;
    }
    std::erase_if(found_.points, [](const FoundPoint& point) {
      return point.evidence.empty() && point.because.empty();
    });
  }

  const fs::path root_;
  const Points& points_;
  Detected found_;
  std::set<std::string> folders_;
};

}  // namespace

void detect_in(Detected& found, const Points& points, std::string_view source, Language language,
               const std::string& file) {
  const std::vector<Token> tokens = tokens_of(source, language);
  const Mentions mentions = mentions_of(tokens, language);
  for (const Mention& mention : mentions.all) {
    for (std::size_t i = 0; i < points.points.size(); ++i) {
      const Point& point = points.points[i];
      for (const Pattern& pattern : point.found_by) {
        if (pattern.in != language || !matches(pattern, mention)) continue;
        auto& evidence = found.points[i].evidence;
        if (evidence.empty() || evidence.back().file != file ||
            evidence.back().line != mention.line)
          evidence.push_back({file, mention.line, line_at(source, mention.line)});
        if (pattern.device != 0 && found.device.empty())
          if (const std::string name = device_named(mention, pattern.device, mentions);
              is_device_name(name)) {
            found.device = name;
            found.device_at = evidence.back();
          }
        break;
      }
    }
  }
}

Result<Detected> detect(const fs::path& folder, const Points& points) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return base::fail(base::Fault::not_found,
                      folder.string() + ": " + (error ? error.message() : "is no folder"),
                      "give the folder of the backend's source");
  return Walk{folder.lexically_normal(), points}.run();
}

json::object to_json(const Detected& found) {
  const auto placed = [](const Evidence& evidence) {
    return json::object{{"file", evidence.file}, {"line", evidence.line}, {"text", evidence.text}};
  };
  json::array points;
  for (const FoundPoint& point : found.points) {
    json::array evidence;
    for (const Evidence& one : point.evidence) evidence.push_back(placed(one));
    json::object object{
        {"point", point.point}, {"says", point.says}, {"evidence", std::move(evidence)}};
    if (!point.because.empty()) object["because"] = point.because;
    points.push_back(std::move(object));
  }
  json::array skipped;
  for (const Skipped& one : found.skipped)
    skipped.push_back(json::object{{"path", one.path}, {"why", base::to_utf8(one.why)}});
  json::object object{
      {"files", found.files},
      {"device", found.device.empty() ? json::value(nullptr) : json::value(found.device)},
      {"points", std::move(points)},
      {"sources", json::array(found.sources.begin(), found.sources.end())},
      {"documents", json::array(found.documents.begin(), found.documents.end())},
      {"skipped", std::move(skipped)}};
  if (found.device_at) object["device_at"] = placed(*found.device_at);
  return object;
}

std::string to_text(const Detected& found, std::size_t most) {
  std::string text;
  for (const FoundPoint& point : found.points) {
    text += fmt::format("{}: {}\n", point.point, point.says);
    for (std::size_t i = 0; i < std::min(most, point.evidence.size()); ++i) {
      const Evidence& one = point.evidence[i];
      text += fmt::format("  {}:{}  {}\n", one.file, one.line, one.text);
    }
    if (point.evidence.size() > most)
      text += fmt::format("  and {} more\n", point.evidence.size() - most);
    if (point.evidence.empty()) text += fmt::format("  {}\n", point.because);
  }
  text += base::count_of(found.points.size(), "extension point") + " in " +
          base::count_of(found.files, "file");
  if (!found.device.empty()) text += fmt::format("; the device is called {}", found.device);
  text += "\n";
  for (const Skipped& one : found.skipped)
    text += fmt::format("not read: {}: {}\n", one.path, base::to_utf8(one.why));
  return text;
}

}  // namespace crosscheck::profile
