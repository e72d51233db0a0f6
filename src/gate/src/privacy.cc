#include "crosscheck/gate/privacy.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/gate/environment.h"
#include "crosscheck/gate/manifest.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;

constexpr std::array<std::string_view, 3> k_levels{"off", "standard", "strict"};

constexpr std::array k_rules{
    PrivacyRule{"output", Privacy::standard, "what a launch printed"},
    PrivacyRule{"variable", Privacy::standard,
                "values of environment variables, except of those that compute libraries read"},
    PrivacyRule{"secret", Privacy::standard,
                "what is called a password, token, key or credential; private keys"},
    PrivacyRule{"token", Privacy::standard,
                "text of the form of a known service's token; 32 characters and more of mixed "
                "letters and digits"},
    PrivacyRule{"login", Privacy::standard, "user and password in a URL"},
    PrivacyRule{"email", Privacy::standard, "e-mail addresses"},
    PrivacyRule{"home", Privacy::standard, "paths below a home folder"},
    PrivacyRule{"host", Privacy::standard, "this machine's name"},
    PrivacyRule{"user", Privacy::standard, "the name of who makes the bundle"},
    PrivacyRule{"failure", Privacy::strict, "why a launch failed, in its own words"},
    PrivacyRule{"address", Privacy::strict, "URLs and IP addresses"},
    PrivacyRule{"path", Privacy::strict, "absolute paths"},
};

// Names of users and hosts that are everybody's, or words that a manifest is made of.
constexpr std::array<std::string_view, 30> k_common{
    "root",        "user",      "admin",      "ubuntu",         "debian",    "runner",
    "build",       "builder",   "test",       "tests",          "localhost", "cpu",
    "cuda",        "rocm",      "mps",        "distributed",    "inference", "training",
    "correctness", "latency",   "throughput", "peak_memory",    "rollback",  "determinism",
    "baseline",    "candidate", "small",      "compile_export", "medium",    "large"};

constexpr std::array<std::string_view, 14> k_computing{
    "OMP_",         "MKL_",        "KMP_",        "GOMP_",   "OPENBLAS_", "BLIS_", "GLOO_",
    "CUDA_VISIBLE", "HIP_VISIBLE", "NVIDIA_TF32", "MALLOC_", "PYTORCH_",  "TORCH", "ATEN_"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

class Redactor {
 public:
  Redactor(Privacy level, const Surroundings& surroundings)
      : level_{level}, surroundings_{surroundings} {
    for (const auto& rule : k_rules) counts_[std::string{rule.name}] = 0;
    for (const auto& prefix :
         {surroundings.home, std::string{"/home"}, std::string{"/Users"}, std::string{"/root"}}) {
      if (prefix.size() > 1) homes_.push_back(prefix);
    }
  }

  [[nodiscard]] const std::map<std::string, std::int64_t>& counts() const { return counts_; }

  // `key` is the name that the value stands under.
  void walk(json::value& value, std::string_view key = {}) {
    if (value.is_string()) {
      value = text(std::string{value.as_string()}, key);
    } else if (value.is_array()) {
      for (auto& item : value.as_array()) walk(item, key);
    } else if (value.is_object()) {
      json::object renamed;
      for (auto& [name, item] : value.as_object()) {
        const std::string_view called = name;
        if (key == "environment" && item.is_string() && !is_computing(called)) {
          item = placeholder("variable", std::string{item.as_string()});
        } else {
          walk(item, called);
        }
        renamed[patterns(std::string{called})] = std::move(item);
      }
      value = std::move(renamed);
    }
  }

 private:
  static bool is_computing(std::string_view name) {
    return std::any_of(k_computing.begin(), k_computing.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
  }

  std::string placeholder(std::string_view rule, std::string_view value) {
    if (value.empty()) return {};
    ++counts_[std::string{rule}];
    const auto mac = base::hmac_sha256(surroundings_.salt, value);
    return fmt::format("redacted-{}-{}", rule, base::to_hex(mac).substr(0, 8));
  }

  std::string text(std::string value, std::string_view key) {
    static const RE2 called_secret{
        R"((?i)(.*[_.-])?(password|passwd|secret|token|api_?key|private_?key|credentials?|authorization))"};
    if (key == "printed") return placeholder("output", value);
    if (RE2::FullMatch(key, called_secret)) return placeholder("secret", value);
    if (level_ == Privacy::strict && key == "reason") return placeholder("failure", value);
    return patterns(std::move(value));
  }

  std::string patterns(std::string value) {
    static const RE2 private_key{
        R"(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z))"};
    static const RE2 assigned{
        R"((?i)[A-Z0-9_-]*(?:password|passwd|secret|token|api_?key|private_?key|credentials?)["']?\s*[=:]\s*("[^"]*"|'[^']*'|[^\s"',;&]+))"};
    static const RE2 bearer{R"((?i)(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,}))"};
    static const RE2 known{
        R"(((?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|npm_|pypi-|cct_|AIza)[A-Za-z0-9_-]{12,}|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[a-z]-[A-Za-z0-9-]{8,}|eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?))"};
    static const RE2 lengthy{R"(([A-Za-z0-9_-]{32,}))"};
    static const RE2 login{R"([A-Za-z][A-Za-z0-9+.-]*://([^/\s@"']+)@)"};
    static const RE2 email{
        R"(([A-Za-z0-9._%+-]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?\.[A-Za-z]{2,}))"};
    static const RE2 address{
        R"((https?://[^\s"'<>]+|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b|\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\b))"};
    static const RE2 path{R"((?:^|[\s"'=:(\[,])(/[^\s"':;,)\]]+))"};
    value = each(value, private_key, "secret", 0);
    value = each(value, assigned, "secret", 1);
    value = each(value, bearer, "token", 1);
    value = each(value, known, "token", 1);
    value = each(value, lengthy, "token", 1, [](std::string_view found) {
      const auto any = [&](int (*is)(int)) {
        return std::any_of(found.begin(), found.end(),
                           [&](char c) { return is(static_cast<unsigned char>(c)) != 0; });
      };
      return any(std::isupper) && any(std::islower) && any(std::isdigit);
    });
    value = each(value, login, "login", 1);
    value = each(value, email, "email", 1);
    value = homes(value);
    value = names(value, surroundings_.host, "host");
    if (const auto dot = surroundings_.host.find('.'); dot != std::string::npos) {
      value = names(value, surroundings_.host.substr(0, dot), "host");
    }
    value = names(value, surroundings_.user, "user");
    if (level_ == Privacy::strict) {
      value = each(value, address, "address", 1);
      value = each(value, path, "path", 1);
    }
    return value;
  }

  // Replaces the group `group` of each match of which `is` holds.
  std::string each(const std::string& value, const RE2& pattern, std::string_view rule, int group,
                   bool (*is)(std::string_view) = nullptr) {
    std::string out;
    std::size_t at = 0;
    std::array<re2::StringPiece, 2> found;
    while (at <= value.size() &&
           pattern.Match(value, at, value.size(), RE2::UNANCHORED, found.data(), group + 1)) {
      const auto& part = found[static_cast<std::size_t>(group)];
      const auto begin = static_cast<std::size_t>(part.data() - value.data());
      if (part.empty()) break;
      out.append(value, at, begin - at);
      const std::string_view what{part.data(), part.size()};
      const bool quoted = group == 1 && what.size() > 1 && what.front() == what.back() &&
                          (what.front() == '"' || what.front() == '\'');
      const bool done = what.starts_with("redacted-");
      if (done || (is && !is(what))) {
        out += what;
      } else if (quoted) {
        out += what.front() + placeholder(rule, what.substr(1, what.size() - 2)) + what.back();
      } else {
        out += placeholder(rule, what);
      }
      at = begin + part.size();
    }
    return out.append(value, std::min(at, value.size()));
  }

  // A path below a home folder: in quotes up to their end, at a value's beginning the whole line,
  // else up to a blank.
  std::string homes(const std::string& value) {
    std::string out;
    std::size_t at = 0;
    while (at < value.size()) {
      const auto prefix = std::find_if(homes_.begin(), homes_.end(), [&](const std::string& home) {
        return value.compare(at, home.size(), home) == 0 &&
               (at + home.size() == value.size() || !is_word(value[at + home.size()]));
      });
      const bool tilde = value.compare(at, 2, "~/") == 0;
      const bool begins = at == 0 || !is_word(value[at - 1]);
      if (!begins || (prefix == homes_.end() && !tilde)) {
        out += value[at++];
        continue;
      }
      const char before = at == 0 ? '\n' : value[at - 1];
      const std::string_view ends = before == '\''  ? "'"
                                    : before == '"' ? "\""
                                    : at == 0       ? "\n"
                                                    : " \t\n\"'`";
      const auto end = std::min(value.find_first_of(ends, at), value.size());
      out += "/" + placeholder("home", std::string_view{value}.substr(at, end - at));
      at = end;
    }
    return out;
  }

  std::string names(const std::string& value, const std::string& name, std::string_view rule) {
    if (name.size() < 3 || std::find(k_common.begin(), k_common.end(), name) != k_common.end()) {
      return value;
    }
    std::string out;
    std::size_t at = 0;
    for (auto found = value.find(name); found != std::string::npos; found = value.find(name, at)) {
      const auto end = found + name.size();
      const bool whole = (found == 0 || !is_word(value[found - 1])) &&
                         (end == value.size() || !is_word(value[end]));
      out.append(value, at, found - at);
      out += whole ? placeholder(rule, name) : name;
      at = end;
    }
    return out.append(value, at);
  }

  Privacy level_;
  const Surroundings& surroundings_;
  std::vector<std::string> homes_;
  std::map<std::string, std::int64_t> counts_;
};

}  // namespace

std::string_view to_string(Privacy privacy) { return k_levels[static_cast<std::size_t>(privacy)]; }

std::optional<Privacy> parse_privacy(std::string_view name) {
  const auto found = std::find(k_levels.begin(), k_levels.end(), name);
  if (found == k_levels.end()) return std::nullopt;
  return static_cast<Privacy>(found - k_levels.begin());
}

std::span<const PrivacyRule> privacy_rules() { return k_rules; }

base::Result<BundleFiles> redact(BundleFiles files, Privacy level,
                                 const Surroundings& surroundings) {
  if (level == Privacy::off) return files;
  Redactor redactor{level, surroundings};
  auto manifest = parse_manifest(files["manifest.yaml"], "manifest.yaml");
  if (!manifest) return tl::unexpected(manifest.error());
  json::value written = manifest_json(*manifest);
  redactor.walk(written);
  files["manifest.yaml"] =
      "# Without its comments: see privacy.json\n" + base::pretty_json(written) + "\n";
  manifest = parse_manifest(files["manifest.yaml"], "manifest.yaml, redacted");
  if (!manifest) return tl::unexpected(manifest.error());
  for (auto& [name, content] : files) {
    if (!name.ends_with(".json")) continue;
    auto root = base::parse_json(content, name);
    if (!root) return tl::unexpected(root.error());
    redactor.walk(*root);
    if (name == "frozen.json" && root->is_object()) {
      adopt_locks(*manifest, *root);
      auto& frozen = root->as_object();
      // Keyed: from a plain digest of a text that is known but for a name, the name can be guessed.
      frozen["original"] = base::to_hex(
          base::hmac_sha256(surroundings.salt, base::canonical_json(frozen["digest"])));
      frozen["digest"] = digest(*manifest);
      frozen["manifest"] = frozen_json(*manifest);
    }
    content = base::canonical_json(*root);
  }
  json::object counts;
  for (const auto& [rule, count] : redactor.counts()) counts[rule] = count;
  files["privacy.json"] =
      base::pretty_json(json::object{{"level", to_string(level)}, {"redacted", std::move(counts)}});
  return files;
}

}  // namespace crosscheck::gate
