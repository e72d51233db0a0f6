#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>

#include "command.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"
#include "crosscheck/github/app.h"
#include "crosscheck/github/oidc.h"
#include "crosscheck/hud/hud.h"
#include "crosscheck/net/client.h"
#include "crosscheck/net/server.h"
#include "crosscheck/relay/answer.h"
#include "crosscheck/relay/commit_check.h"
#include "crosscheck/relay/github_source.h"
#include "crosscheck/relay/github_target.h"
#include "crosscheck/relay/local_issuer.h"
#include "crosscheck/relay/local_target.h"
#include "crosscheck/relay/path_filter.h"
#include "crosscheck/relay/relay.h"
#include "crosscheck/relay/retention.h"
#include "crosscheck/relay/shadow_target.h"
#include "crosscheck/store/access.h"
#include "retention.h"
#include "settings.h"

namespace crosscheck::cli {
namespace {

using base::Fault;
using base::Result;
namespace log = base::log;

constexpr std::chrono::seconds k_grace{10};     // for requests and dispatches in progress
constexpr std::chrono::seconds k_job_grace{5};  // for local jobs, after SIGTERM

struct Options {
  bool local = false;
  bool shadow = false;
  std::string listen;
  std::string allowlist;
  std::string state_dir;
  std::string public_url;
  std::string upstream;
  std::vector<std::string> commands;
};

// SIGINT, SIGTERM and SIGHUP are taken by one thread: the first of the former asks for an orderly
// end, a second ends at once. Made before any other thread, so that all inherit the blocked
// signals.
class StopSignal {
 public:
  StopSignal() {
    ::signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  // The signal's number. `hang_up` is called at each SIGHUP before.
  [[nodiscard]] int wait(const std::function<void()>& hang_up) const {
    int number = 0;
    while (sigwait(&signals_, &number) != 0 || number == SIGHUP) {
      if (number == SIGHUP) hang_up();
      number = 0;
    }
    std::thread{[signals = signals_] {
      int second = 0;
      while (sigwait(&signals, &second) != 0 || second == SIGHUP) {
      }
      ::_exit(128 + second);
    }}.detach();
    return number;
  }

 private:
  sigset_t signals_{};
};

tl::unexpected<base::Error> missing(std::string_view name, std::string remedy) {
  return base::fail(Fault::invalid_input, std::string{name} + ": not set", std::move(remedy));
}

// What must be there before anything starts.
Result<void> check(const Settings& s, bool local) {
  if (s.allowlist.empty() && s.allowlist_url.empty())
    return missing("allowlist",
                   "give --allowlist FILE, or `allowlist` or `allowlist_url` in the settings file");
  if (!s.hud_api_url.empty() && s.hud_bot_key.empty())
    return missing("hud_bot_key", "set HUD_BOT_KEY, or hud_bot_key_file in the settings file");
  if (s.tls_certificate.empty() != s.tls_key.empty())
    return missing(s.tls_key.empty() ? "tls_key" : "tls_certificate",
                   "TLS needs tls_certificate and tls_key, both PEM files");
  if (local) return {};
  if (s.webhook_secrets.empty())
    return missing("webhook_secret",
                   "set GITHUB_APP_SECRET, or webhook_secret_file in the settings file");
  if (s.github_app_id.empty()) return missing("github_app_id", "set GITHUB_APP_ID");
  if (s.github_app_private_key.empty())
    return missing(
        "github_app_private_key",
        "set GITHUB_APP_PRIVATE_KEY, or github_app_private_key_file in the settings file");
  if (!s.local_commands.empty())
    return base::fail(Fault::invalid_input, "local_commands: are for `serve --local`",
                      "remove them, or add --local");
  return {};
}

Result<github::SigningKey> signing_key(const Settings& s) {
  auto key = github::SigningKey::from_pem(s.github_app_private_key);
  if (!key)
    return base::fail(Fault::invalid_input, "github_app_private_key: " + key.error().message,
                      key.error().remedy);
  return std::move(*key);
}

// Nothing in local mode.
Result<std::unique_ptr<github::App>> make_github_app(const Settings& s, bool local,
                                                     net::Client& client,
                                                     const base::Clock& clock) {
  if (local) return nullptr;
  auto key = signing_key(s);
  if (!key) return tl::unexpected(key.error());
  return std::make_unique<github::App>(
      github::App::Options{.app_id = s.github_app_id, .api_url = s.github_api_url}, std::move(*key),
      client, clock);
}

// The file of this machine, or the one on GitHub that `setting` names.
Result<std::unique_ptr<relay::TextSource>> text_source(const std::string& file,
                                                       std::string_view setting,
                                                       const std::string& url, std::string what,
                                                       std::size_t limit,
                                                       github::FileReader reader) {
  if (!file.empty() && !url.empty())
    return base::fail(Fault::invalid_input,
                      std::string{setting} + ": the file " + file + " is named as well",
                      "remove one of the two: `crosscheck settings show` tells where they stand");
  if (!file.empty()) return relay::file_source(file, std::move(what), limit);
  auto address = github::parse_file_address(url, reader.api_url);
  if (!address)
    return base::fail(Fault::invalid_input, std::string{setting} + ": " + address.error().message,
                      address.error().remedy);
  return relay::github_source(url, std::move(*address), std::move(reader), limit);
}

std::string local_url(const Settings& settings, const std::string& host, std::uint16_t port) {
  std::string name = host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host;
  if (name.find(':') != std::string::npos) name = "[" + name + "]";
  return (settings.tls_certificate.empty() ? "http://" : "https://") + name + ":" +
         std::to_string(port);
}

// Everything that answers requests. Made once the port is known.
class App {
 public:
  App(store::Store& store, const base::Clock& clock, relay::AllowlistFile& allowlist,
      std::unique_ptr<net::Client> client, std::unique_ptr<github::App> app, Settings settings,
      std::string settings_digest, std::string url)
      : store_{store},
        clock_{clock},
        allowlist_{allowlist},
        settings_{std::move(settings)},
        settings_digest_{std::move(settings_digest)},
        url_{std::move(url)},
        app_{std::move(app)},
        daily_prune_{store, clock, retention_of(settings_)},
        client_{std::move(client)} {}

  Result<void> open(bool local, bool shadow, bool issuers_given) {
    std::vector<github::TrustedIssuer> issuers;
    if (local) {
      auto issuer = relay::LocalIssuer::open(settings_.state_dir, clock_);
      if (!issuer) return tl::unexpected(issuer.error());
      issuer_.emplace(std::move(*issuer));
      issuer_->set_url(url_);
      issuers.push_back({.issuer = url_, .jwks = issuer_->jwks()});
    }
    if (!local || issuers_given)
      for (const OidcIssuer& i : settings_.oidc_issuers) issuers.push_back(trusted(i));
    auto verifier =
        github::OidcVerifier::create(settings_.oidc_audience, std::move(issuers), *client_, clock_);
    if (!verifier)
      return base::fail(verifier.error().fault, "oidc_issuers: " + verifier.error().message,
                        verifier.error().remedy);
    verifier_ = std::move(*verifier);

    if (!settings_.ci_providers.empty() || !settings_.ci_providers_url.empty()) {
      auto source =
          text_source(settings_.ci_providers, "ci_providers_url", settings_.ci_providers_url,
                      "the mapping of pipelines", relay::k_providers_limit,
                      {.client = *client_, .api_url = settings_.github_api_url, .app = app_.get()});
      if (!source) return tl::unexpected(source.error());
      providers_ = std::make_unique<relay::ProvidersFile>(std::move(*source));
      const auto read = providers_->load();
      // Where GitHub is away, all but the pipelines can be served until it is back.
      if (!read && read.error().fault != Fault::unavailable)
        return base::fail(read.error().fault, "ci_providers: " + read.error().message,
                          read.error().remedy);
    }

    auto upstream = base::RepoName::parse(settings_.upstream_repo);
    if (!upstream) return tl::unexpected(upstream.error());
    relay::DispatchTarget* target = nullptr;
    if (local) {
      relay::LocalTargetOptions options;
      for (const auto& [repo, command] : settings_.local_commands)
        options.commands.emplace(base::to_lower_ascii(repo), command);
      options.jobs_dir = jobs_dir(settings_);
      options.server_url = url_;
      options.request_token = [this](const relay::Dispatch& d, const std::string& run_id) {
        return issuer_->request_token(d, run_id);
      };
      options.audience = settings_.oidc_audience;
      options.ended = [this](const base::RepoName& repo, const std::string& delivery_id,
                             const std::string& run_id, std::string_view conclusion) {
        conclude(repo, delivery_id, run_id, conclusion);
      };
      options.concurrency = static_cast<std::size_t>(settings_.local_job_concurrency);
      local_target_ = std::make_unique<relay::LocalTarget>(std::move(options));
      target = local_target_.get();
    } else {
      github_target_ = std::make_unique<relay::GithubTarget>(
          *app_, static_cast<std::size_t>(settings_.max_dispatch_workers));
      path_filter_ = std::make_unique<relay::PathFilter>(
          *github_target_, allowlist_, relay::list_changed_files(*app_, *upstream));
      target = path_filter_.get();
      commits_ = std::make_unique<relay::CommitCheck>(relay::ask_github(*app_, *upstream), clock_);
      calls_ = std::make_unique<relay::GithubCallTarget>(
          *app_, *upstream, static_cast<std::size_t>(settings_.max_dispatch_workers));
    }
    shadow_ = shadow;
    if (shadow) {
      target = &shadow_target_;
      commits_.reset();
    }
    relay::RelayOptions options{
        .intake = {.upstream = *upstream,
                   .label_prefix = settings_.label_prefix,
                   .webhook_secrets = settings_.webhook_secrets},
        .verify_token = [this](std::string_view token) { return verify(token); },
        .find_commit = commits_ ? [this](const std::string& sha) { return commits_->find(sha); }
                                : relay::FindCommit{},
        .dispatcher = {.concurrency = static_cast<std::size_t>(settings_.max_dispatch_workers)},
        .rate_limit_per_minute = static_cast<int>(settings_.rate_limit_per_min),
        .forward_to = shadow || settings_.hud_api_url.empty()
                          ? std::nullopt
                          : std::optional{relay::ForwardOptions{
                                settings_.hud_api_url + "/crcr/results", settings_.hud_bot_key}},
        .report_window =
            settings_.status_ttl_seconds == 0
                ? std::nullopt
                : std::optional<base::Duration>{std::chrono::seconds{settings_.status_ttl_seconds}},
        .client = client_.get(),
        .allowlist_poll = std::chrono::seconds{settings_.allowlist_ttl_seconds},
        .providers = providers_.get(),
        .budgets = app_ ? [this] { return app_->budgets(); }
                        : std::function<std::vector<github::ApiBudget>()>{},
        .version = CROSSCHECK_VERSION};
    const std::chrono::seconds silence{settings_.zombie_timeout_seconds};
    options.sweeper.job_timeout = silence;
    if (calls_) {
      options.calls = shadow ? static_cast<relay::CallTarget*>(&shadow_calls_) : calls_.get();
      options.checks = {.upstream = *upstream,
                        .label_prefix = settings_.label_prefix,
                        .stable = {.settle = std::chrono::seconds{settings_.check_settle_seconds},
                                   .silence = silence},
                        .pages_url = settings_.public_url};
    }
    relay_ =
        std::make_unique<relay::Relay>(store_, clock_, allowlist_, *target, std::move(options));
    hud_ = std::make_unique<hud::Hud>(
        store_, hud::HudOptions{.clock = clock_,
                                .upstream_repo = settings_.upstream_repo,
                                .upstream_url = local ? "" : "https://github.com",
                                .version = CROSSCHECK_VERSION,
                                .readiness = readiness_targets(settings_),
                                .live = [this] { return live(); }});
    return {};
  }

  void start() {
    relay_->start();
    daily_prune_.start();
  }

  net::Response handle(const net::Request& request) {
    if (auto response = relay_->handle(request)) return std::move(*response);
    if (issuer_)
      if (auto response = issuer_->handle(request)) return std::move(*response);
    if (local_target_)
      if (auto response = local_target_->handle(request)) return std::move(*response);
    if (auto response = hud_->handle(request)) return std::move(*response);
    const bool page = request.method == "GET" || request.method == "HEAD";
    for (const std::string_view machine : {"/github/", "/api/", "/local/"})
      if (!page || request.path.starts_with(machine))
        return relay::answer_json(
            404, {{"ok", false},
                  {"error", "not_found"},
                  {"detail", "no such address: " + base::to_utf8(request.path, 200)}});
    return hud_->not_found(request);
  }

  // Takes secrets and keys that were changed: what signs and what is accepted overlap for as long
  // as a person lets both stand in the file. `key`: nothing in local mode.
  void reload(const Settings& settings, std::optional<github::SigningKey> key) {
    if (key) app_->set_key(std::move(*key));
    if (!settings.webhook_secrets.empty()) relay_->set_webhook_secrets(settings.webhook_secrets);
  }

  // What /ops shows of this process.
  hud::Live live() {
    const auto health = relay_->dispatcher_health();
    const auto list = allowlist_.status();
    hud::Live live;
    live.started_at = started_at_;
    live.settings_digest = settings_digest_;
    live.shadow = shadow_;
    live.sender = {health.running, health.last_step, health.error, relay_->sending()};
    live.allowlist = {settings_.allowlist.empty() ? settings_.allowlist_url : settings_.allowlist,
                      list.digest, list.loaded ? std::optional{list.loaded_at} : std::nullopt,
                      list.error};
    for (auto& r : relay_->refusals())
      live.refusals.push_back({r.kind, r.reason, r.count, r.last_at, r.last_detail});
    if (app_)
      for (auto& b : app_->budgets())
        live.budgets.push_back({b.account, b.resource, b.limit, b.remaining, b.resets_at});
    return live;
  }

  void stop() {
    // Jobs first: what they would report finds nobody, and what they hold is let go.
    if (local_target_) local_target_->stop(k_job_grace);
    daily_prune_.stop();
    if (relay_) relay_->stop(k_grace);
  }

 private:
  static github::TrustedIssuer trusted(const OidcIssuer& i) {
    return {
        .issuer = i.issuer, .kind = i.kind, .identity_claim = i.identity_claim, .jwks_url = i.keys};
  }
  Result<base::json::value> verify(std::string_view token) {
    auto verified = verifier_->verify(token);
    if (!verified) return tl::unexpected(github::to_error(verified.error()));
    auto& claims = verified->claims;
    if (verified->kind == github::IssuerKind::buildkite) {
      auto mapped = relay::map_pipeline(std::move(claims),
                                        providers_ ? *providers_->current() : relay::Providers{});
      if (!mapped) return tl::unexpected(mapped.error());
      claims = std::move(*mapped);
    }
    return base::json::value(std::move(claims));
  }

  // A local command that is over reports no more: what it left in progress ends with it.
  void conclude(const base::RepoName& repo, const std::string& delivery_id,
                const std::string& run_id, std::string_view conclusion) {
    const auto jobs =
        relay::conclude_run(store_, repo, delivery_id, run_id, conclusion, clock_.now());
    if (!jobs) {
      log::error("local_job.not_concluded", {{"run_id", run_id}, {"error", jobs.error().message}});
    } else if (*jobs > 0) {
      log::warning("local_job.concluded", {{"delivery", delivery_id},
                                           {"repo", repo.full_name()},
                                           {"run_id", run_id},
                                           {"jobs", *jobs},
                                           {"conclusion", conclusion}});
    }
  }

  store::Store& store_;
  const base::Clock& clock_;
  relay::AllowlistFile& allowlist_;
  const Settings settings_;
  const std::string settings_digest_;
  const std::string url_;
  const base::Time started_at_ = clock_.now();
  bool shadow_ = false;
  std::optional<relay::LocalIssuer> issuer_;
  std::unique_ptr<github::OidcVerifier> verifier_;
  std::unique_ptr<relay::ProvidersFile> providers_;
  const std::unique_ptr<github::App> app_;
  std::unique_ptr<relay::GithubTarget> github_target_;
  std::unique_ptr<relay::PathFilter> path_filter_;
  std::unique_ptr<relay::CommitCheck> commits_;
  std::unique_ptr<relay::GithubCallTarget> calls_;
  std::unique_ptr<relay::LocalTarget> local_target_;
  relay::ShadowTarget shadow_target_;
  relay::ShadowCallTarget shadow_calls_;
  relay::DailyPrune daily_prune_;
  std::unique_ptr<relay::Relay> relay_;
  std::unique_ptr<hud::Hud> hud_;
  // Goes first: requests still open end with it, and speak to the parts above.
  std::unique_ptr<net::Client> client_;
};

// Who may open the file may change things: the token of a server that one person runs.
Result<void> keep_admin_token(store::Store& store, const base::Clock& clock,
                              const Settings& settings) {
  const auto file = std::filesystem::path{settings.state_dir} / "admin-token";
  const auto token = relay::keep_secret(file, 32);
  if (!token) return tl::unexpected(token.error());
  auto adopted = store.write([&](store::Tx& tx) {
    return store::adopt_token(tx, *token, "local-admin", store::Role::admin, clock.now());
  });
  if (!adopted) return adopted;
  log::info("admin_token", {{"file", file.string()}});
  return {};
}

Result<LoadedSettings> read_settings(const Globals& globals, const Options& options) {
  std::vector<Flag> flags;
  const auto add = [&flags](std::string name, std::string option, const std::string& text) {
    if (!text.empty()) flags.push_back({std::move(name), std::move(option), text});
  };
  add("db", "--db", globals.db);
  add("listen", "--listen", options.listen);
  add("allowlist", "--allowlist", options.allowlist);
  add("state_dir", "--state-dir", options.state_dir);
  add("public_url", "--public-url", options.public_url);
  add("upstream_repo", "--upstream", options.upstream);
  for (const std::string& command : options.commands) add("local_commands", "--command", command);
  return load_settings(globals.settings_file, process_environment(), flags);
}

// SIGHUP: certificate, key, webhook secrets and App key are read again; the rest takes a restart.
// What cannot be used leaves all as it was.
void reload(const Globals& globals, const Options& options, App& app, net::Server& server) {
  const auto done = [&]() -> Result<void> {
    const auto loaded = read_settings(globals, options);
    if (!loaded) return tl::unexpected(loaded.error());
    const Settings& settings = loaded->values;
    if (auto ready = check(settings, options.local); !ready) return ready;
    std::optional<github::SigningKey> key;
    if (!options.local) {
      auto read = signing_key(settings);
      if (!read) return tl::unexpected(read.error());
      key = std::move(*read);
    }
    if (auto tls = server.reload_tls({settings.tls_certificate, settings.tls_key}); !tls)
      return tls;
    app.reload(settings, std::move(key));
    return {};
  }();
  if (done)
    log::info("reloaded");
  else
    log::error("not_reloaded", {{"reason", done.error().message}});
}

Result<base::ExitCode> serve(const Globals& globals, const Options& options) {
  const StopSignal stop_signal;
  auto loaded = read_settings(globals, options);
  if (!loaded) return tl::unexpected(loaded.error());
  Settings& settings = loaded->values;
  if (auto ready = check(settings, options.local); !ready) return tl::unexpected(ready.error());
  for (const auto& unused : loaded->unused)
    log::info("settings.unused", {{"variable", unused.variable}, {"reason", unused.reason}});
  for (const auto& [file, url, setting] :
       {std::tuple{&settings.allowlist, &settings.allowlist_url, "allowlist_url"},
        std::tuple{&settings.ci_providers, &settings.ci_providers_url, "ci_providers_url"}})
    if (!file->empty() && !url->empty())
      log::warning("settings.unused",
                   {{"setting", setting}, {"reason", "a file of this machine is given for it"}});
  const bool issuers_given = loaded->is_given("oidc_issuers");
  if (options.local && settings.webhook_secrets.empty()) {
    auto secret =
        relay::keep_secret(std::filesystem::path{settings.state_dir} / "webhook-secret", 32);
    if (!secret) return tl::unexpected(secret.error());
    settings.webhook_secrets = {*secret};
  }

  const base::SystemClock clock;
  const auto store = store::open(settings.db);
  if (!store) return tl::unexpected(store.error());
  if (options.local)
    if (auto made = keep_admin_token(**store, clock, settings); !made)
      return tl::unexpected(made.error());
  net::Client::Options client_options;
  // Where GitHub is spoken to in HTTP/1.1, a dispatch in progress holds a connection.
  client_options.max_connections_per_host = settings.max_dispatch_workers;
  auto client = net::Client::create(client_options);
  auto github_app = make_github_app(settings, options.local, *client, clock);
  if (!github_app) return tl::unexpected(github_app.error());
  auto source = text_source(
      settings.allowlist, "allowlist_url", settings.allowlist_url, "the allowlist",
      relay::k_allowlist_limit,
      {.client = *client, .api_url = settings.github_api_url, .app = github_app->get()});
  if (!source) return tl::unexpected(source.error());
  relay::AllowlistFile allowlist{std::move(*source), **store, clock};
  // One on GitHub that was good before serves until it is read again.
  if (settings.allowlist.empty())
    static_cast<void>(allowlist.recall());
  else if (auto read = allowlist.load(); !read)
    return tl::unexpected(read.error());

  const auto address = parse_listen(settings.listen);
  if (!address) return tl::unexpected(address.error());
  std::promise<App*> promise;
  net::ServerOptions server_options;
  server_options.host = address->host;
  server_options.port = address->port;
  if (!settings.tls_certificate.empty())
    server_options.tls = net::TlsFiles{settings.tls_certificate, settings.tls_key};
  for (const std::string& text : settings.trusted_proxies)
    server_options.trusted_proxies.push_back(net::Network::parse(text).value());
  server_options.body_limit = relay::Relay::body_limit;
  // Most handlers wait for a commit, which the store lets those share that wait together.
  server_options.handler_threads = 32;
  // Requests that come before the parts stand wait for them.
  auto server = net::Server::start(
      server_options, [app = promise.get_future().share()](const net::Request& request) {
        App* const ready = app.get();
        if (ready != nullptr) return ready->handle(request);
        return relay::refuse({Fault::unavailable, "the server could not start"}, "serve");
      });
  if (!server) return tl::unexpected(server.error());
  const std::string here = local_url(settings, address->host, (*server)->port());
  const std::string url = settings.public_url.empty() ? here : settings.public_url;
  App app{**store,          clock, allowlist, std::move(client), std::move(*github_app), settings,
          loaded->digest(), url};
  if (auto opened = app.open(options.local, options.shadow, issuers_given); !opened) {
    promise.set_value(nullptr);
    (*server)->stop(std::chrono::milliseconds{0});
    return tl::unexpected(opened.error());
  }
  promise.set_value(&app);

  log::info("listening on " + here, {{"url", url},
                                     {"db", store::redact(settings.db)},
                                     {"local", options.local},
                                     {"shadow", options.shadow}});
  // Where GitHub is away, events are refused until it is back; where it has no such list, for good.
  if (!allowlist.is_loaded())
    if (auto read = allowlist.poll(); !read && read.error().fault != Fault::unavailable) {
      (*server)->stop(std::chrono::milliseconds{0});
      return tl::unexpected(read.error());
    }
  app.start();
  if (globals.json) {
    const boost::json::object line{{"url", url}, {"pid", ::getpid()}};
    std::printf("%s\n", boost::json::serialize(line).c_str());
    std::fflush(stdout);
  }

  ::malloc_trim(0);  // what only the start needed
  const int number = stop_signal.wait([&] { reload(globals, options, app, **server); });
  log::info("stopping", {{"signal", number}});
  (*server)->stop(k_grace);
  app.stop();
  (*store)->interrupt();
  log::info("stopped");
  return base::ExitCode::ok;
}

const Registration k_registration{
    "serve", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("serve", "Run the relay and the pages");
      command->footer(
          "Settings come from a file, the environment and these options: `crosscheck settings "
          "show`.\n"
          "SIGINT or SIGTERM ends it after what is in progress; a second one at once.\n"
          "SIGHUP has certificate, webhook secrets and the App's key read again.\n"
          "Example:\n"
          "  crosscheck serve --local --allowlist allowlist.yaml \\\n"
          "    --command 'org/backend=./run-tests.sh' --listen 127.0.0.1:8080");
      const auto options = std::make_shared<Options>();
      command->add_flag("--local", options->local,
                        "Without GitHub: events start local commands, tokens are issued here");
      command->add_flag(
          "--shadow", options->shadow,
          "Receive everything, send nothing: /ops and the log say what would be sent");
      command->add_option("--listen", options->listen, "HOST:PORT; port 0 is any free one");
      command->add_option("--allowlist", options->allowlist,
                          "The backends and their levels (YAML)");
      command
          ->add_option("--command", options->commands,
                       "owner/repo=COMMAND, run by /bin/sh for each event (with --local)")
          ->expected(1)
          ->take_all()
          ->allow_extra_args(false);
      command->add_option("--state-dir", options->state_dir, "Where secrets and job logs are kept");
      command->add_option("--public-url", options->public_url, "How jobs reach this server");
      command->add_option("--upstream", options->upstream, "The upstream repository, owner/repo");
      command->callback([&globals, &action, options] {
        action = [&globals, options] { return serve(globals, *options); };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
