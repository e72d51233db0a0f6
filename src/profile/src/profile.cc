#include "crosscheck/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <utility>

#include "crosscheck/base/file.h"
#include "crosscheck/base/nearest.h"
#include "crosscheck/base/yaml.h"
#include "crosscheck/profile/operators.h"

namespace crosscheck::profile {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;
using base::Result;
using base::yaml::Node;
using Kind = Node::Kind;
using Words = std::vector<std::string_view>;

constexpr std::array<std::string_view, 9> k_keys{
    "name",      "device",    "device_module", "extension_points", "scope", "sources",
    "documents", "operators", "tests"};
constexpr std::array<std::string_view, 2> k_scope_keys{"without", "dtypes"};
constexpr std::array<std::string_view, 19> k_dtypes{"bfloat16",      "bool",
                                                    "complex128",    "complex32",
                                                    "complex64",     "float16",
                                                    "float32",       "float64",
                                                    "float8_e4m3fn", "float8_e4m3fnuz",
                                                    "float8_e5m2",   "float8_e5m2fnuz",
                                                    "int16",         "int32",
                                                    "int64",         "int8",
                                                    "uint16",        "uint32",
                                                    "uint8"};
constexpr std::size_t k_shown = 100;

std::string shown(std::string_view text) { return "'" + base::to_utf8(text, k_shown) + "'"; }

struct Placed {
  std::string path;
  int line = 1;
  int column = 1;
};

class Parser {
 public:
  Parser(std::string_view source, const Points& points) : source_{source}, points_{points} {}

  Loaded parse(const Node& root) {
    if (!root.is(Kind::mapping)) {
      find(root, "expected a backend's profile", "begin with `name:`; see docs/profile.md");
      return {std::nullopt, std::move(findings_)};
    }
    for (const auto& [key, value] : root.entries) field(key, value);
    if (profile_.name.empty() && root.find("name") == nullptr)
      find(root, "`name` is missing", "what people call the backend");
    if (profile_.device.empty() && root.find("device") == nullptr)
      find(root, "`device` is missing", "the device as torch.device has it");
    if (root.find("extension_points") == nullptr)
      find(root, "`extension_points` is missing",
           "`crosscheck profile detect` proposes them; `[]` for none");
    return {std::move(profile_), std::move(findings_)};
  }

  // Paths, each with its place in the file.
  [[nodiscard]] const std::vector<Placed>& folders() const { return folders_; }
  [[nodiscard]] const std::vector<Placed>& operator_files() const { return operator_files_; }

 private:
  void find(const Node& node, std::string message, std::string remedy = {}) {
    findings_.push_back(
        base::yaml::fail_at(source_, node, std::move(message), std::move(remedy)).value());
  }

  void field(const Node& key, const Node& value) {
    const std::string& name = key.text;
    if (name == "name" || name == "device" || name == "device_module") {
      std::string& to = name == "name"     ? profile_.name
                        : name == "device" ? profile_.device
                                           : profile_.device_module;
      if (!value.is(Kind::text) || value.text.empty()) return find(value, name + ": expected text");
      to = value.text;
    } else if (name == "extension_points") {
      words(value, name, points_.names(), profile_.extension_points);
    } else if (name == "scope") {
      scope(value);
    } else if (name == "sources") {
      paths(value, name, profile_.sources, folders_);
    } else if (name == "documents") {
      paths(value, name, profile_.documents, folders_);
    } else if (name == "tests") {
      paths(value, name, profile_.tests, folders_);
    } else if (name == "operators") {
      paths(value, name, profile_.operators, operator_files_);
    } else {
      find(key, "unknown key " + shown(name), base::suggest(name, k_keys));
    }
  }

  void scope(const Node& node) {
    if (node.is(Kind::null)) return;
    if (!node.is(Kind::mapping)) return find(node, "scope: expected a mapping", "{without: […]}");
    for (const auto& [key, value] : node.entries) {
      if (key.text == "without") {
        words(value, "scope.without", points_.area_names(), profile_.without);
      } else if (key.text == "dtypes") {
        std::set<std::string, std::less<>> all;
        words(value, "scope.dtypes", {k_dtypes.begin(), k_dtypes.end()}, all);
        profile_.dtypes.assign(all.begin(), all.end());
      } else {
        find(key, "scope: unknown key " + shown(key.text), base::suggest(key.text, k_scope_keys));
      }
    }
  }

  void words(const Node& node, const std::string& name, const Words& known,
             std::set<std::string, std::less<>>& to) {
    if (node.is(Kind::null)) return;
    if (!node.is(Kind::sequence)) return find(node, name + ": expected a list");
    for (const Node& item : node.items) {
      if (!item.is(Kind::text)) {
        find(item, name + ": expected a name");
      } else if (std::ranges::find(known, item.text) == known.end()) {
        find(item, name + ": there is no " + shown(item.text), base::suggest(item.text, known));
      } else if (!to.insert(item.text).second) {
        find(item, name + ": " + shown(item.text) + " stands twice");
      }
    }
  }

  void paths(const Node& node, const std::string& name, std::vector<std::string>& to,
             std::vector<Placed>& placed) {
    if (node.is(Kind::null)) return;
    if (!node.is(Kind::sequence)) return find(node, name + ": expected a list of paths");
    for (const Node& item : node.items) {
      if (!item.is(Kind::text) || item.text.empty()) {
        find(item, name + ": expected a path");
        continue;
      }
      const fs::path path = fs::path{item.text}.lexically_normal();
      if (path.is_absolute() || path.begin()->string() == "..") {
        find(item, name + ": " + shown(item.text) + " leads out of the profile's folder",
             "write paths relative to it");
        continue;
      }
      to.push_back(item.text);
      placed.push_back({item.text, item.line, item.column});
    }
  }

  const std::string_view source_;
  const Points& points_;
  Profile profile_;
  std::vector<base::Error> findings_;
  std::vector<Placed> folders_;
  std::vector<Placed> operator_files_;
};

std::string list(const auto& words) {
  std::string text = "[";
  for (const std::string& word : words) text += (text.size() > 1 ? ", " : "") + word;
  return text + "]";
}

// In quotes: whatever a file or backend is called, this is it.
std::string in_quotes(std::string_view text) {
  return json::serialize(json::value(base::to_utf8(text)));
}

std::string paths_of(std::string_view key, const std::vector<std::string>& paths) {
  if (paths.empty()) return {};
  std::string text = fmt::format("{}:\n", key);
  for (const std::string& path : paths) text += fmt::format("  - {}\n", in_quotes(path));
  return text;
}

Loaded parse(Parser& parser, std::string_view text, std::string_view source) {
  const auto root = base::yaml::parse(text, source);
  if (!root) return {std::nullopt, {root.error()}};
  return parser.parse(*root);
}

}  // namespace

Loaded parse_profile(std::string_view text, std::string_view source, const Points& points) {
  Parser parser{source, points};
  return parse(parser, text, source);
}

Loaded check_profile(const fs::path& file, const Points& points) {
  const auto text = base::read_file(file, k_profile_limit);
  if (!text) return {std::nullopt, {text.error()}};
  const std::string source = file.string();
  Parser parser{source, points};
  Loaded loaded = parse(parser, *text, source);
  const fs::path folder = file.parent_path();
  std::error_code error;
  const auto find = [&](const Placed& at, std::string message, std::string remedy = {}) {
    loaded.findings.push_back({base::Fault::invalid_input,
                               fmt::format("{}:{}:{}: {}", source, at.line, at.column, message),
                               std::move(remedy)});
  };
  for (const Placed& at : parser.folders())
    if (!fs::exists(folder / at.path, error))
      find(at, "there is no " + shown(at.path) + " beside the profile");
  for (const Placed& at : parser.operator_files()) {
    const auto read = load_operators(folder / at.path);
    if (!read) find(at, "operators: " + read.error().message, read.error().remedy);
  }
  return loaded;
}

Result<Profile> load_profile(const fs::path& file, const Points& points) {
  Loaded loaded = check_profile(file, points);
  if (loaded.findings.empty()) return std::move(*loaded.profile);
  if (loaded.findings.size() == 1) return tl::unexpected(std::move(loaded.findings.front()));
  std::string message;
  for (const base::Error& finding : loaded.findings)
    message += (message.empty() ? "" : "\n") + to_string(finding);
  return base::fail(base::Fault::invalid_input, std::move(message));
}

std::vector<std::string> compare(const Profile& profile, std::string_view source,
                                 const Detected& found) {
  std::vector<std::string> notes;
  std::set<std::string, std::less<>> seen;
  for (const FoundPoint& point : found.points) {
    seen.insert(point.point);
    if (point.evidence.empty() || profile.uses(point.point)) continue;
    const Evidence& first = point.evidence.front();
    notes.push_back(fmt::format("{}:{}: the source uses {}, which {} does not list: {}", first.file,
                                first.line, point.point, source, first.text));
  }
  for (const std::string& point : profile.extension_points)
    if (!seen.contains(point))
      notes.push_back(
          fmt::format("{}: lists {}, of which the source shows nothing", source, point));
  if (!found.device.empty() && found.device != profile.device)
    notes.push_back(fmt::format("{}:{}: the source calls the device {}, {} calls it {}",
                                found.device_at->file, found.device_at->line, found.device, source,
                                profile.device));
  return notes;
}

json::object to_json(const Profile& profile) {
  const auto texts = [](const auto& words) { return json::array(words.begin(), words.end()); };
  return {{"name", profile.name},
          {"device", profile.device},
          {"device_module", profile.device_module.empty() ? json::value(nullptr)
                                                          : json::value(profile.device_module)},
          {"extension_points", texts(profile.extension_points)},
          {"scope",
           json::object{{"without", texts(profile.without)}, {"dtypes", texts(profile.dtypes)}}},
          {"sources", texts(profile.sources)},
          {"documents", texts(profile.documents)},
          {"operators", texts(profile.operators)},
          {"tests", texts(profile.tests)}};
}

std::string to_yaml(const Profile& profile) {
  std::string text =
      fmt::format("name: {}\ndevice: {}\n", in_quotes(profile.name), in_quotes(profile.device));
  if (!profile.device_module.empty())
    text += fmt::format("device_module: {}\n", in_quotes(profile.device_module));
  text += fmt::format("extension_points: {}\n", list(profile.extension_points));
  if (!profile.without.empty() || !profile.dtypes.empty()) {
    text += "scope:\n";
    if (!profile.without.empty()) text += fmt::format("  without: {}\n", list(profile.without));
    if (!profile.dtypes.empty()) text += fmt::format("  dtypes: {}\n", list(profile.dtypes));
  }
  text += paths_of("sources", profile.sources) + paths_of("documents", profile.documents) +
          paths_of("operators", profile.operators) + paths_of("tests", profile.tests);
  return text;
}

std::string to_yaml(const Detected& found, std::string_view name) {
  std::string text = fmt::format(
      "# What `crosscheck profile detect` saw in the source. Confirm each line: what is not listed "
      "here is\n"
      "# taken as not used, and tests of it are left out. docs/profile.md has all keys and "
      "points.\n"
      "name: {}\n",
      in_quotes(name));
  text += found.device.empty() ? "device: privateuseone  # the source names none\n"
                               : fmt::format("device: {}\n", in_quotes(found.device));
  text += found.points.empty() ? "extension_points: []\n" : "extension_points:\n";
  for (const FoundPoint& point : found.points) {
    std::string why = point.because;
    if (!point.evidence.empty()) {
      const Evidence& first = point.evidence.front();
      why = fmt::format("{}:{}", first.file, first.line);
      if (point.evidence.size() > 1) why += fmt::format(" and {} more", point.evidence.size() - 1);
      std::erase_if(why, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    }
    text += fmt::format("  - {}  # {}\n", point.point, why);
  }
  text += "# scope: {without: [], dtypes: []}\n";
  return text + paths_of("sources", found.sources) + paths_of("documents", found.documents) +
         "# operators: []  # files that list them\n# tests: []\n";
}

}  // namespace crosscheck::profile
