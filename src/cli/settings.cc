#include "settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/nearest.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/url.h"
#include "crosscheck/base/yaml.h"
#include "crosscheck/net/forwarded.h"
#include "crosscheck/store/store.h"

namespace crosscheck::cli {
namespace {

using base::Fault;
using base::Result;
using base::yaml::Node;
using Kind = Node::Kind;

constexpr std::string_view k_default_file = "crosscheck.settings.yaml";
constexpr std::size_t k_file_limit = 1 << 20;
constexpr std::string_view k_hidden = "(hidden)";

// Sets the value from text; what was expected when the text will not do.
using SetText = Result<void, std::string> (*)(Settings&, const std::string&);
// Sets the value from a list or mapping of the file.
using SetNode = Result<void> (*)(Settings&, const Node&, std::string_view source);
using Show = std::string (*)(const Settings&);

struct Definition {
  std::string_view name;
  std::string_view variable;  // empty: none
  SetText text;               // nullptr: the file alone can say it
  SetNode node;               // nullptr: text only
  Show show;                  // nullptr: as it was given
};

using Text = Result<void, std::string>;

Text not_expected(std::string what) { return tl::unexpected(std::move(what)); }

template <std::string Settings::* member>
Text set_text(Settings& s, const std::string& text) {
  if (text.empty()) return not_expected("some text");
  s.*member = text;
  return {};
}
template <std::string Settings::* member>
std::string show_text(const Settings& s) {
  return s.*member;
}

template <std::int64_t Settings::* member, std::int64_t least, std::int64_t most>
Text set_number(Settings& s, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most)
    return not_expected("a whole number from " + std::to_string(least) + " to " +
                        std::to_string(most));
  s.*member = number;
  return {};
}
template <std::int64_t Settings::* member>
std::string show_number(const Settings& s) {
  return std::to_string(s.*member);
}

template <std::string Settings::* member>
Text set_url(Settings& s, const std::string& text) {
  if (!base::is_web_url(text)) return not_expected("an http(s) address without user info");
  s.*member = text;
  while ((s.*member).ends_with('/')) (s.*member).pop_back();
  return {};
}

Text set_upstream(Settings& s, const std::string& text) {
  const auto repo = base::RepoName::parse(text);
  if (!repo) return not_expected("a repository, owner/repo");
  s.upstream_repo = repo->full_name();
  return {};
}

Text set_listen(Settings& s, const std::string& text) {
  if (!parse_listen(text)) return not_expected("HOST:PORT");
  s.listen = text;
  return {};
}

Text set_app_id(Settings& s, const std::string& text) {
  if (text.empty() || text.size() > 64 ||
      !std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.'; }))
    return not_expected("the App's id (a number) or client id");
  s.github_app_id = text;
  return {};
}

Text set_key(Settings& s, const std::string& text) {
  std::string pem = text;
  // Environments that cannot hold lines write "\n" for them.
  for (std::size_t at = 0; (at = pem.find("\\n", at)) != std::string::npos; ++at)
    pem.replace(at, 2, "\n");
  if (!pem.starts_with("-----BEGIN") || pem.find("PRIVATE KEY-----") == std::string::npos)
    return not_expected("a private key in PEM (-----BEGIN … PRIVATE KEY-----)");
  s.github_app_private_key = pem;
  return {};
}

// Not a pipe by name, which may never have a writer. A shell's `<(COMMAND)` is below /dev.
Result<std::string> read_whole(const std::string& path, std::size_t limit) {
  std::error_code error;
  if (!path.starts_with("/dev/") && std::filesystem::is_fifo(path, error))
    return base::fail(base::Fault::invalid_input,
                      path + ": is a pipe that nobody may ever write to",
                      "name a file, or give <(COMMAND)");
  return base::read_file(path, limit);
}

Text read_trimmed(const std::string& path, std::string& into) {
  auto bytes = read_whole(path, 64 * 1024);
  if (!bytes) return not_expected("a file that can be read: " + bytes.error().message);
  while (bytes->ends_with('\n') || bytes->ends_with('\r')) bytes->pop_back();
  if (bytes->empty()) return not_expected("a file that is not empty");
  into = std::move(*bytes);
  return {};
}

Text set_key_file(Settings& s, const std::string& path) {
  std::string pem;
  if (auto read = read_trimmed(path, pem); !read) return read;
  return set_key(s, pem + "\n");
}

Text set_secret(Settings& s, const std::string& text) {
  if (text.empty()) return not_expected("some text");
  s.webhook_secrets = {text};
  return {};
}

// The key goes with every call, so it needs https; this machine's own addresses are for trials.
Text set_hud_url(Settings& s, const std::string& text) {
  const bool is_near = text.starts_with("http://127.0.0.1:") || text.starts_with("http://[::1]:") ||
                       text.starts_with("http://localhost:");
  if (!text.starts_with("https://") && !is_near) return not_expected("an https address");
  return set_url<&Settings::hud_api_url>(s, text);
}

Text set_hud_key(Settings& s, const std::string& text) {
  if (text.empty() ||
      !std::ranges::all_of(text, [](unsigned char c) { return c >= ' ' && c < 0x7f; }))
    return not_expected("printable text");
  s.hud_bot_key = text;
  return {};
}

Text set_hud_key_file(Settings& s, const std::string& path) {
  std::string key;
  if (auto read = read_trimmed(path, key); !read) return read;
  return set_hud_key(s, key);
}

// One secret a line: while a secret is changed, the old and the new one are both accepted.
Text set_secret_file(Settings& s, const std::string& path) {
  std::string text;
  if (auto read = read_trimmed(path, text); !read) return read;
  s.webhook_secrets.clear();
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const auto end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) s.webhook_secrets.push_back(std::move(line));
    begin = end + 1;
  }
  return {};
}

Result<void> set_issuers(Settings& s, const Node& node, std::string_view source) {
  const auto wrong = [&](const Node& at, std::string message) {
    return base::yaml::fail_at(source, at, "oidc_issuers: " + std::move(message),
                               "write `- {issuer: https://…, keys: https://…/jwks}`");
  };
  if (!node.is(Kind::sequence)) return wrong(node, "expected a list");
  if (node.items.empty())
    return wrong(node, "an empty list: whom to trust is left to nobody, and no report is accepted");
  std::vector<OidcIssuer> issuers;
  for (const Node& item : node.items) {
    if (!item.is(Kind::mapping)) return wrong(item, "expected a mapping");
    OidcIssuer issuer;
    bool kind_given = false;
    for (const auto& [key, value] : item.entries) {
      if (key.text == "identity_claim" && value.is(Kind::text) && !value.text.empty()) {
        issuer.identity_claim = value.text;
        continue;
      }
      if (key.text == "kind") {
        if (value.text != "github" && value.text != "buildkite")
          return wrong(value, "kind: expected github or buildkite");
        issuer.kind =
            value.text == "github" ? github::IssuerKind::github : github::IssuerKind::buildkite;
        kind_given = true;
        continue;
      }
      if (key.text != "issuer" && key.text != "keys")
        return wrong(key, "unknown or empty key '" + key.text + "'");
      if (!value.is(Kind::text) || !base::is_web_url(value.text))
        return wrong(value, "expected an http(s) address");
      (key.text == "issuer" ? issuer.issuer : issuer.keys) = value.text;
    }
    if (issuer.issuer.empty() || issuer.keys.empty())
      return wrong(item, "an issuer needs `issuer` and `keys`");
    if (kind_given && !issuer.identity_claim.empty())
      return wrong(item, "`kind` and `identity_claim` exclude each other");
    if (!issuer.identity_claim.empty())
      issuer.kind = github::IssuerKind::generic;
    else if (!kind_given && issuer.issuer == github::buildkite().issuer)
      issuer.kind = github::IssuerKind::buildkite;
    issuers.push_back(std::move(issuer));
  }
  s.oidc_issuers = std::move(issuers);
  return {};
}

std::string show_issuers(const Settings& s) {
  std::string text;
  for (const OidcIssuer& issuer : s.oidc_issuers) {
    if (!text.empty()) text += ", ";
    text += issuer.issuer + " (keys: " + issuer.keys + ")";
  }
  return text;
}

Text add_command(Settings& s, std::string_view repo, const std::string& command) {
  const auto name = base::RepoName::parse(repo);
  if (!name || command.empty()) return not_expected("owner/repo=COMMAND");
  for (auto& [known, line] : s.local_commands)
    if (base::to_lower_ascii(known) == name->key()) {
      line = command;
      return {};
    }
  s.local_commands.emplace_back(name->full_name(), command);
  return {};
}

Text set_command(Settings& s, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) return not_expected("owner/repo=COMMAND");
  return add_command(s, std::string_view{text}.substr(0, equals), text.substr(equals + 1));
}

Result<void> set_commands(Settings& s, const Node& node, std::string_view source) {
  if (!node.is(Kind::mapping))
    return base::yaml::fail_at(source, node, "local_commands: expected a mapping",
                               "write `owner/repo: command`");
  for (const auto& [key, value] : node.entries)
    if (!value.is(Kind::text) || !add_command(s, key.text, value.text))
      return base::yaml::fail_at(source, key, "local_commands: expected `owner/repo: command`");
  return {};
}

std::string show_commands(const Settings& s) {
  std::string text;
  for (const auto& [repo, command] : s.local_commands) {
    if (!text.empty()) text += ", ";
    text += repo + "=" + command;
  }
  return text;
}

// Separated by commas or spaces.
Text set_proxies(Settings& s, const std::string& text) {
  s.trusted_proxies.clear();
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(", ", begin)) != std::string::npos) {
    const auto end = std::min(text.find_first_of(", ", begin), text.size());
    std::string network = text.substr(begin, end - begin);
    if (!net::Network::parse(network))
      return not_expected("addresses or networks, such as 10.0.0.0/8, not '" + network + "'");
    s.trusted_proxies.push_back(std::move(network));
    begin = end;
  }
  if (s.trusted_proxies.empty()) return not_expected("an address or a network");
  return {};
}

Result<void> set_proxy_list(Settings& s, const Node& node, std::string_view source) {
  std::string text = node.text;
  if (node.is(Kind::sequence))
    for (const Node& item : node.items) text += " " + item.text;
  if (auto set = set_proxies(s, text); !set)
    return base::yaml::fail_at(source, node, "trusted_proxies: expected " + set.error());
  return {};
}

std::string show_proxies(const Settings& s) {
  std::string text;
  for (const std::string& network : s.trusted_proxies) text += (text.empty() ? "" : " ") + network;
  return text;
}

std::string show_secret(const Settings& s) {
  return s.webhook_secrets.empty() ? std::string{} : std::string{k_hidden};
}
std::string show_key(const Settings& s) {
  return s.github_app_private_key.empty() ? std::string{} : std::string{k_hidden};
}
std::string show_hud_key(const Settings& s) {
  return s.hud_bot_key.empty() ? std::string{} : std::string{k_hidden};
}
std::string show_db(const Settings& s) { return store::redact(s.db); }

constexpr std::int64_t k_day = 24 * 3600;
// A file is looked at each second; on GitHub, calls without the App are 60 an hour.
constexpr std::int64_t k_remote_ttl_seconds = 300;

constexpr std::array<Definition, 42> k_definitions{{
    {"db", "CROSSCHECK_DB", set_text<&Settings::db>, nullptr, show_db},
    {"upstream_repo", "UPSTREAM_REPO", set_upstream, nullptr, show_text<&Settings::upstream_repo>},
    {"listen", "CROSSCHECK_LISTEN", set_listen, nullptr, show_text<&Settings::listen>},
    {"public_url", "CROSSCHECK_PUBLIC_URL", set_url<&Settings::public_url>, nullptr,
     show_text<&Settings::public_url>},
    {"state_dir", "CROSSCHECK_STATE_DIR", set_text<&Settings::state_dir>, nullptr,
     show_text<&Settings::state_dir>},
    {"allowlist", "CROSSCHECK_ALLOWLIST", set_text<&Settings::allowlist>, nullptr,
     show_text<&Settings::allowlist>},
    {"allowlist_ttl_seconds", "ALLOWLIST_TTL_SECONDS",
     set_number<&Settings::allowlist_ttl_seconds, 1, k_day>, nullptr,
     show_number<&Settings::allowlist_ttl_seconds>},
    {"github_api_url", "GITHUB_API_URL", set_url<&Settings::github_api_url>, nullptr,
     show_text<&Settings::github_api_url>},
    {"github_app_id", "GITHUB_APP_ID", set_app_id, nullptr, show_text<&Settings::github_app_id>},
    {"github_app_private_key", "GITHUB_APP_PRIVATE_KEY", set_key, nullptr, show_key},
    {"github_app_private_key_file", "GITHUB_APP_PRIVATE_KEY_FILE", set_key_file, nullptr, nullptr},
    {"webhook_secret", "GITHUB_APP_SECRET", set_secret, nullptr, show_secret},
    {"webhook_secret_file", "GITHUB_APP_SECRET_FILE", set_secret_file, nullptr, nullptr},
    {"hud_api_url", "HUD_API_URL", set_hud_url, nullptr, show_text<&Settings::hud_api_url>},
    {"hud_bot_key", "HUD_BOT_KEY", set_hud_key, nullptr, show_hud_key},
    {"hud_bot_key_file", "HUD_BOT_KEY_FILE", set_hud_key_file, nullptr, nullptr},
    {"oidc_audience", "CROSSCHECK_OIDC_AUDIENCE", set_text<&Settings::oidc_audience>, nullptr,
     show_text<&Settings::oidc_audience>},
    {"oidc_issuers", "", nullptr, set_issuers, show_issuers},
    {"label_prefix", "CROSSCHECK_LABEL_PREFIX", set_text<&Settings::label_prefix>, nullptr,
     show_text<&Settings::label_prefix>},
    {"max_dispatch_workers", "MAX_DISPATCH_WORKERS",
     set_number<&Settings::max_dispatch_workers, 1, 1024>, nullptr,
     show_number<&Settings::max_dispatch_workers>},
    {"rate_limit_per_min", "RATE_LIMIT_PER_MIN",
     set_number<&Settings::rate_limit_per_min, 1, 1'000'000>, nullptr,
     show_number<&Settings::rate_limit_per_min>},
    {"status_ttl_seconds", "CRCR_STATUS_TTL",
     set_number<&Settings::status_ttl_seconds, 0, 3650 * k_day>, nullptr,
     show_number<&Settings::status_ttl_seconds>},
    {"zombie_timeout_seconds", "ZOMBIE_TIMEOUT_SECONDS",
     set_number<&Settings::zombie_timeout_seconds, 60, 30 * k_day>, nullptr,
     show_number<&Settings::zombie_timeout_seconds>},
    {"check_settle_seconds", "CROSSCHECK_CHECK_SETTLE_SECONDS",
     set_number<&Settings::check_settle_seconds, 1, k_day>, nullptr,
     show_number<&Settings::check_settle_seconds>},
    {"local_job_concurrency", "CROSSCHECK_LOCAL_JOBS",
     set_number<&Settings::local_job_concurrency, 1, 64>, nullptr,
     show_number<&Settings::local_job_concurrency>},
    {"retention_bodies_days", "CROSSCHECK_RETENTION_BODIES_DAYS",
     set_number<&Settings::retention_bodies_days, 0, 36500>, nullptr,
     show_number<&Settings::retention_bodies_days>},
    {"retention_logs_days", "CROSSCHECK_RETENTION_LOGS_DAYS",
     set_number<&Settings::retention_logs_days, 0, 36500>, nullptr,
     show_number<&Settings::retention_logs_days>},
    {"retention_results_days", "CROSSCHECK_RETENTION_RESULTS_DAYS",
     set_number<&Settings::retention_results_days, 0, 36500>, nullptr,
     show_number<&Settings::retention_results_days>},
    {"retention_events_days", "CROSSCHECK_RETENTION_EVENTS_DAYS",
     set_number<&Settings::retention_events_days, 0, 36500>, nullptr,
     show_number<&Settings::retention_events_days>},
    {"tls_certificate", "CROSSCHECK_TLS_CERTIFICATE", set_text<&Settings::tls_certificate>, nullptr,
     show_text<&Settings::tls_certificate>},
    {"tls_key", "CROSSCHECK_TLS_KEY", set_text<&Settings::tls_key>, nullptr,
     show_text<&Settings::tls_key>},
    {"trusted_proxies", "CROSSCHECK_TRUSTED_PROXIES", set_proxies, set_proxy_list, show_proxies},
    {"readiness_tenure_days", "CROSSCHECK_READINESS_TENURE_DAYS",
     set_number<&Settings::readiness_tenure_days, 0, 3650>, nullptr,
     show_number<&Settings::readiness_tenure_days>},
    {"readiness_queue_minutes", "CROSSCHECK_READINESS_QUEUE_MINUTES",
     set_number<&Settings::readiness_queue_minutes, 1, 100'000>, nullptr,
     show_number<&Settings::readiness_queue_minutes>},
    {"readiness_end_to_end_minutes", "CROSSCHECK_READINESS_END_TO_END_MINUTES",
     set_number<&Settings::readiness_end_to_end_minutes, 1, 100'000>, nullptr,
     show_number<&Settings::readiness_end_to_end_minutes>},
    {"readiness_time_out_percent", "CROSSCHECK_READINESS_TIME_OUT_PERCENT",
     set_number<&Settings::readiness_time_out_percent, 1, 100>, nullptr,
     show_number<&Settings::readiness_time_out_percent>},
    {"readiness_pass_percent", "CROSSCHECK_READINESS_PASS_PERCENT",
     set_number<&Settings::readiness_pass_percent, 0, 100>, nullptr,
     show_number<&Settings::readiness_pass_percent>},
    {"readiness_least_samples", "CROSSCHECK_READINESS_LEAST_SAMPLES",
     set_number<&Settings::readiness_least_samples, 1, 1'000>, nullptr,
     show_number<&Settings::readiness_least_samples>},
    {"local_commands", "", set_command, set_commands, show_commands},
    {"allowlist_url", "ALLOWLIST_URL", set_url<&Settings::allowlist_url>, nullptr,
     show_text<&Settings::allowlist_url>},
    {"ci_providers", "CROSSCHECK_CI_PROVIDERS", set_text<&Settings::ci_providers>, nullptr,
     show_text<&Settings::ci_providers>},
    {"ci_providers_url", "CI_PROVIDERS_URL", set_url<&Settings::ci_providers_url>, nullptr,
     show_text<&Settings::ci_providers_url>},
}};

// What PyTorch's relay reads besides. A name that ends in '_' stands for all that begin so.
struct UnusedVariable {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array<UnusedVariable, 6> k_unused{{
    {"REDIS_", "jobs and queues are kept in the database (db)"},
    {"AWS_", "nothing is read from AWS"},
    {"SECRET_STORE_ARN",
     "secrets are not read from AWS: GITHUB_APP_SECRET, GITHUB_APP_PRIVATE_KEY and HUD_BOT_KEY "
     "hold "
     "them, or files that the same names with _FILE name"},
    {"HUD_MAX_RETRIES", "a report is tried again for a day, then kept for people to see"},
    {"MAX_CLEANUP_WORKERS", "one pass over the database ends the jobs that went silent"},
    {"IN_PROGRESS_WARN_THRESHOLD", "any number of jobs may be in progress: /metrics counts them"},
}};

const Definition* find(std::string_view name) {
  const auto found = std::ranges::find(k_definitions, name, &Definition::name);
  return found == k_definitions.end() ? nullptr : &*found;
}

// Where each setting that is not a default comes from.
struct Given {
  std::string origin;
  std::string text;
};
using Origins = std::map<std::string_view, Given>;

Result<void> apply_text(Settings& settings, Origins& origins, const Definition& definition,
                        const std::string& text, const std::string& origin) {
  if (auto set = definition.text(settings, text); !set)
    return base::fail(Fault::invalid_input,
                      origin + ": " + std::string{definition.name} + ": expected " + set.error());
  origins[definition.name] = {origin, text};
  // What a file holds is the setting itself.
  if (constexpr std::string_view suffix = "_file"; definition.name.ends_with(suffix))
    origins[definition.name.substr(0, definition.name.size() - suffix.size())] = {origin, {}};
  return {};
}

Result<void> apply_file(Settings& settings, Origins& origins, const std::string& path) {
  const auto text = read_whole(path, k_file_limit);
  if (!text) return tl::unexpected(text.error());
  const auto root = base::yaml::parse(*text, path);
  if (!root) return tl::unexpected(root.error());
  if (root->is(Kind::null)) return {};
  if (!root->is(Kind::mapping))
    return base::yaml::fail_at(path, *root, "expected `setting: value` lines");
  for (const auto& [key, value] : root->entries) {
    const Definition* definition = find(key.text);
    if (definition == nullptr) {
      std::array<std::string_view, k_definitions.size()> names;
      std::ranges::transform(k_definitions, names.begin(), &Definition::name);
      return base::yaml::fail_at(path, key, "unknown setting '" + key.text + "'",
                                 base::suggest(key.text, names));
    }
    const std::string origin =
        path + ":" + std::to_string(key.line) + ":" + std::to_string(key.column);
    if (definition->node != nullptr) {
      if (auto set = definition->node(settings, value, path); !set) return set;
      origins[definition->name] = {origin, {}};
    } else if (!value.is(Kind::text)) {
      return base::yaml::fail_at(path, value,
                                 std::string{definition->name} + ": expected text, found " +
                                     std::string{to_string(value.kind)});
    } else if (auto set = apply_text(settings, origins, *definition, value.text, origin); !set) {
      return set;
    }
  }
  return {};
}

}  // namespace

std::vector<OidcIssuer> default_issuers() {
  std::vector<OidcIssuer> issuers;
  for (const auto& known : {github::github_actions(), github::buildkite()})
    issuers.push_back({known.issuer, known.jwks_url, known.kind});
  return issuers;
}

bool LoadedSettings::is_given(std::string_view name) const {
  const auto found = std::ranges::find(shown, name, &ShownSetting::name);
  return found != shown.end() && found->origin != "default";
}

std::string LoadedSettings::digest() const {
  std::string all;
  for (const ShownSetting& s : shown) all += s.name + '\0' + s.value + '\0';
  return base::sha256_hex(all);
}

Environment process_environment() {
  Environment all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    if (const auto equals = text.find('='); equals != std::string_view::npos)
      all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

Result<LoadedSettings> load_settings(const std::string& file, const Environment& environment,
                                     const std::vector<Flag>& flags) {
  LoadedSettings loaded;
  Origins origins;
  std::error_code ignored;
  const std::string path = !file.empty() ? file
                           : std::filesystem::exists(k_default_file, ignored)
                               ? std::string{k_default_file}
                               : "";
  if (!path.empty())
    if (auto done = apply_file(loaded.values, origins, path); !done)
      return tl::unexpected(done.error());
  for (const Definition& definition : k_definitions) {
    if (definition.variable.empty()) continue;
    const auto found = environment.find(definition.variable);
    if (found == environment.end() || found->second.empty()) continue;
    if (auto done = apply_text(loaded.values, origins, definition, found->second,
                               "$" + std::string{definition.variable});
        !done)
      return tl::unexpected(done.error());
  }
  for (const Flag& flag : flags) {
    const Definition* definition = find(flag.name);
    if (definition == nullptr) return base::fail(Fault::internal, "no setting " + flag.name);
    if (auto done = apply_text(loaded.values, origins, *definition, flag.text, flag.option); !done)
      return tl::unexpected(done.error());
  }
  Settings& values = loaded.values;
  const bool is_remote = (values.allowlist.empty() && !values.allowlist_url.empty()) ||
                         (values.ci_providers.empty() && !values.ci_providers_url.empty());
  if (is_remote && !origins.contains("allowlist_ttl_seconds"))
    values.allowlist_ttl_seconds = k_remote_ttl_seconds;
  for (const auto& variable : environment)
    for (const UnusedVariable& known : k_unused)
      if (known.name.ends_with('_') ? variable.first.starts_with(known.name)
                                    : variable.first == known.name)
        loaded.unused.push_back({variable.first, std::string{known.reason}});
  for (const Definition& definition : k_definitions) {
    const auto given = origins.find(definition.name);
    const bool is_default = given == origins.end();
    loaded.shown.push_back({std::string{definition.name},
                            definition.show != nullptr ? definition.show(loaded.values)
                            : is_default               ? std::string{}
                                                       : given->second.text,
                            is_default ? "default" : given->second.origin});
  }
  return loaded;
}

Result<ListenAddress> parse_listen(std::string_view text) {
  const auto wrong = [&] {
    return base::fail(Fault::invalid_input, "'" + std::string{text} + "' is not HOST:PORT",
                      "for example 127.0.0.1:8080, or [::1]:0 for any free port");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return wrong();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']') || host.size() < 3) return wrong();
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong();
  }
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size()) return wrong();
  return ListenAddress{std::string{host}, port};
}

}  // namespace crosscheck::cli
