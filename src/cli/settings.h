#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/github/oidc.h"

// The program's own settings: one YAML file, over it the environment (with the names of PyTorch's
// relay), over it the command line. Everything is checked before anything starts.
namespace crosscheck::cli {

struct OidcIssuer {
  std::string issuer;  // the token's `iss`
  std::string keys;    // address of its key set
  github::IssuerKind kind = github::IssuerKind::github;
  std::string identity_claim = {};  // of the generic kind: the claim that holds owner/repo
};

[[nodiscard]] std::vector<OidcIssuer> default_issuers();  // GitHub Actions and Buildkite

struct Settings {
  std::string db = ".crosscheck/crosscheck.db";
  std::string upstream_repo = "pytorch/pytorch";
  std::string listen = "127.0.0.1:8080";
  std::string public_url;  // how jobs reach this server; empty: from where it listens
  std::string state_dir = ".crosscheck";
  std::string allowlist;         // a file
  std::string allowlist_url;     // a file on GitHub, as its page there or the API has it
  std::string ci_providers;      // a file
  std::string ci_providers_url;  // the same on GitHub
  std::string github_api_url = "https://api.github.com";
  std::string github_app_id;
  std::string github_app_private_key;        // PEM
  std::vector<std::string> webhook_secrets;  // any of them is accepted
  std::string hud_api_url;                   // another HUD that wants reports too; empty: none
  std::string hud_bot_key;
  std::string oidc_audience = "pytorch-cross-repo-ci-relay";
  std::vector<OidcIssuer> oidc_issuers = default_issuers();
  std::string label_prefix = "ciflow/crcr/";
  std::int64_t allowlist_ttl_seconds = 1;  // how often it is looked at; on GitHub 300
  std::int64_t max_dispatch_workers = 64;  // GitHub takes 100 calls of an App at once
  std::int64_t rate_limit_per_min = 100;
  std::int64_t status_ttl_seconds = 0;  // how long after its dispatch a job may report; 0: for ever
  std::int64_t zombie_timeout_seconds =
      6 * 3600;                             // a silent job, or a silent L4 backend, has failed
  std::int64_t check_settle_seconds = 300;  // quiet after the last job, until a verdict
  std::int64_t local_job_concurrency = 1;
  std::int64_t retention_bodies_days = 30;  // 0: for ever, as of the next three
  std::int64_t retention_logs_days = 30;
  std::int64_t retention_results_days = 180;
  std::int64_t retention_events_days = 365;
  std::string tls_certificate;               // a file; empty: HTTP without TLS
  std::string tls_key;                       // a file
  std::vector<std::string> trusted_proxies;  // addresses and networks whose X-Forwarded-… count
  std::int64_t readiness_tenure_days = 30;
  std::int64_t readiness_queue_minutes = 30;
  std::int64_t readiness_end_to_end_minutes = 180;
  std::int64_t readiness_time_out_percent = 1;
  std::int64_t readiness_pass_percent = 90;
  std::int64_t readiness_least_samples = 20;
  std::vector<std::pair<std::string, std::string>> local_commands;  // owner/repo, command
};

// For people: one setting with its value (secrets hidden) and where it comes from.
struct ShownSetting {
  std::string name;
  std::string value;
  std::string origin;  // "default", "FILE:line", "$NAME", "--option"
};

struct LoadedSettings {
  Settings values;
  std::vector<ShownSetting> shown;

  // Variables of PyTorch's relay that mean nothing here, and why.
  struct Unused {
    std::string variable;
    std::string reason;
    friend bool operator==(const Unused&, const Unused&) = default;
  };
  std::vector<Unused> unused;

  [[nodiscard]] bool is_given(std::string_view name) const;  // not the default
  // Of every value as it is shown, secrets left out: equal where settings are.
  [[nodiscard]] std::string digest() const;
};

using Environment = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] Environment process_environment();

// A setting given on the command line: its name, the option, the text.
struct Flag {
  std::string name;
  std::string option;
  std::string text;
};

// Reads `file` (empty: crosscheck.settings.yaml if it exists), the environment and the flags. The
// error names the setting and its origin.
[[nodiscard]] base::Result<LoadedSettings> load_settings(const std::string& file,
                                                         const Environment& environment,
                                                         const std::vector<Flag>& flags);

// "HOST:PORT" or "[v6]:PORT".
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] base::Result<ListenAddress> parse_listen(std::string_view text);

}  // namespace crosscheck::cli
