#include "settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "crosscheck/base/file.h"
#include "crosscheck/base/temporary_folder.h"

namespace crosscheck::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SettingsTest : public ::testing::Test {
 protected:
  std::string file(const std::string& text, const std::string& name = "s.yaml") {
    const std::string path = folder_ / name;
    EXPECT_TRUE(base::write_file_atomically(path, text));
    return path;
  }
  // The error's text, file names shortened.
  std::string error(const std::string& text) {
    const auto loaded = load_settings(file(text), {}, {});
    if (loaded) return "none";
    std::string message = base::to_string(loaded.error());
    const std::string folder = folder_.path().string() + "/";
    if (message.starts_with(folder)) message.erase(0, folder.size());
    return message;
  }
  static const ShownSetting& shown(const LoadedSettings& loaded, std::string_view name) {
    for (const ShownSetting& s : loaded.shown)
      if (s.name == name) return s;
    throw std::out_of_range{std::string{name}};
  }

  base::TemporaryFolder folder_;
};

TEST_F(SettingsTest, APipeByNameIsRefusedAndNotWaitedFor) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto loaded = load_settings(pipe, {}, {});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(base::exit_code(loaded.error().fault), base::ExitCode::bad_input);
  EXPECT_THAT(loaded.error().message, HasSubstr("is a pipe"));
  EXPECT_THAT(error("webhook_secret_file: " + pipe + "\n"), HasSubstr("is a pipe"));
  // What a shell makes of <(COMMAND).
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string_view text = "upstream_repo: a/piped\n";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), std::ssize(text));
  ::close(ends[1]);
  const auto piped = load_settings("/dev/fd/" + std::to_string(ends[0]), {}, {});
  ::close(ends[0]);
  ASSERT_TRUE(piped) << piped.error().message;
  EXPECT_EQ(piped->values.upstream_repo, "a/piped");
}

TEST_F(SettingsTest, TheCommandLineGoesOverTheEnvironmentAndThatOverTheFile) {
  const std::string path =
      file("upstream_repo: a/file\nrate_limit_per_min: 5\nlisten: 127.0.0.1:1\n");
  const auto loaded =
      load_settings(path, {{"UPSTREAM_REPO", "a/environment"}, {"RATE_LIMIT_PER_MIN", "6"}},
                    {{"upstream_repo", "--upstream", "a/flag"}});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->values.upstream_repo, "a/flag");
  EXPECT_EQ(loaded->values.rate_limit_per_min, 6);
  EXPECT_EQ(loaded->values.listen, "127.0.0.1:1");
  EXPECT_EQ(loaded->values.max_dispatch_workers, 64);
  EXPECT_EQ(shown(*loaded, "upstream_repo").origin, "--upstream");
  EXPECT_EQ(shown(*loaded, "rate_limit_per_min").origin, "$RATE_LIMIT_PER_MIN");
  EXPECT_EQ(shown(*loaded, "listen").origin, path + ":3:1");
  EXPECT_EQ(shown(*loaded, "max_dispatch_workers").origin, "default");
}

TEST_F(SettingsTest, AWrongFileIsRefusedWithPlaceAndRemedy) {
  EXPECT_THAT(error("upstream_rep: a/b\n"),
              AllOf(StartsWith("s.yaml:1:1: unknown setting 'upstream_rep'"),
                    HasSubstr("did you mean 'upstream_repo'?")));
  EXPECT_THAT(error("rate_limit_per_min: 0\n"),
              HasSubstr("rate_limit_per_min: expected a whole number from 1"));
  EXPECT_THAT(error("rate_limit_per_min: 1e3\n"), HasSubstr("rate_limit_per_min"));
  EXPECT_THAT(error("listen: 8080\n"), HasSubstr("s.yaml:1:1: listen: expected HOST:PORT"));
  EXPECT_THAT(error("listen: [a]\n"),
              StartsWith("s.yaml:1:9: listen: expected text, found a list"));
  EXPECT_THAT(error("listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n"), StartsWith("s.yaml:2:1: "));
  EXPECT_THAT(error("- a\n"), StartsWith("s.yaml:1:1: expected `setting: value`"));
  EXPECT_THAT(error("github_api_url: https://me:secret@api.example\n"),
              AllOf(HasSubstr("github_api_url"), Not(HasSubstr("secret"))));
  EXPECT_THAT(error("oidc_issuers: []\n"), HasSubstr("s.yaml:1:15: oidc_issuers: an empty list"));
  EXPECT_THAT(error("oidc_issuers: [{issuer: https://x.example}]\n"),
              HasSubstr("an issuer needs `issuer` and `keys`"));
  EXPECT_THAT(error("oidc_issuers: [{issuer: x, keys: y}]\n"),
              HasSubstr("s.yaml:1:25: oidc_issuers"));
  EXPECT_THAT(error("local_commands: {nonsense: x}\n"), HasSubstr("owner/repo: command"));
  EXPECT_EQ(error(""), "none");
}

TEST_F(SettingsTest, AMissingFileThatWasAskedForIsAnError) {
  const auto loaded = load_settings(folder_ / "missing.yaml", {}, {});
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("missing.yaml"));
}

TEST_F(SettingsTest, SecretsAreHidden) {
  const std::string pem = "-----BEGIN RSA PRIVATE KEY-----\\nhush\\n-----END RSA PRIVATE KEY-----";
  const auto loaded = load_settings(file(""),
                                    {{"GITHUB_APP_SECRET", "hush1"},
                                     {"GITHUB_APP_PRIVATE_KEY", pem},
                                     {"CROSSCHECK_DB", "postgresql://me:hush2@db.example/x"}},
                                    {});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(loaded->values.github_app_private_key, HasSubstr("KEY-----\nhush\n-----END"));
  for (const ShownSetting& s : loaded->shown)
    EXPECT_THAT(s.value, Not(HasSubstr("hush"))) << s.name;
  EXPECT_EQ(shown(*loaded, "webhook_secret").value, "(hidden)");
}

TEST_F(SettingsTest, ASecretsFileHoldsOneSecretALine) {
  const std::string secrets = file("new\r\n\nold\n", "secrets");
  const auto loaded = load_settings(file("webhook_secret_file: " + secrets + "\n"), {}, {});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(loaded->values.webhook_secrets, ::testing::ElementsAre("new", "old"));
  EXPECT_EQ(shown(*loaded, "webhook_secret_file").value, secrets);
  EXPECT_THAT(error("webhook_secret_file: /nowhere/x\n"), HasSubstr("webhook_secret_file"));
  EXPECT_THAT(error("webhook_secret_file: " + file("\n", "empty") + "\n"), HasSubstr("not empty"));
}

TEST_F(SettingsTest, TheStoreIsNamedByOptionVariableOrFile) {
  const std::string path = file("db: from-file\n");
  const Environment environment{{"CROSSCHECK_DB", "from-variable"}};
  const std::vector<Flag> flags{{"db", "--db", "from-option"}};
  const auto check = [&](const auto& loaded, const std::string& value, const std::string& origin) {
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->values.db, value);
    EXPECT_EQ(shown(*loaded, "db").origin, origin);
  };
  check(load_settings(path, {}, {}), "from-file", path + ":1:1");
  check(load_settings(path, environment, {}), "from-variable", "$CROSSCHECK_DB");
  check(load_settings(path, environment, flags), "from-option", "--db");
}

TEST_F(SettingsTest, ASecretOfAFileIsGivenThere) {
  const std::string secrets = file("s\n", "secrets");
  const std::string path = file("webhook_secret_file: " + secrets + "\n");
  const auto loaded = load_settings(path, {}, {});
  ASSERT_TRUE(loaded);
  EXPECT_EQ(shown(*loaded, "webhook_secret").value, "(hidden)");
  EXPECT_EQ(shown(*loaded, "webhook_secret").origin, path + ":1:1");
  EXPECT_EQ(shown(*loaded, "github_app_private_key").origin, "default");
  EXPECT_TRUE(loaded->is_given("webhook_secret"));
  EXPECT_FALSE(loaded->is_given("zombie_timeout_seconds"));
}

TEST_F(SettingsTest, VariablesWithoutCounterpartAreNamedWithTheReason) {
  const auto loaded = load_settings(
      file(""),
      {{"REDIS_LOGIN", "x"}, {"HOME", "/"}, {"HUD_MAX_RETRIES", "3"}, {"HUD_MAX_RETRIES_X", "3"}},
      {});
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->unused.size(), 2U);
  EXPECT_EQ(loaded->unused[0].variable, "HUD_MAX_RETRIES");
  EXPECT_THAT(loaded->unused[0].reason, HasSubstr("tried again"));
  EXPECT_EQ(loaded->unused[1].variable, "REDIS_LOGIN");
}

TEST_F(SettingsTest, EveryVariableOfPyTorchsRelayIsUnderstood) {
  const Environment environment{{"GITHUB_APP_ID", "4711"},
                                {"GITHUB_APP_SECRET", "s"},
                                {"UPSTREAM_REPO", "pytorch/pytorch"},
                                {"ALLOWLIST_URL", "https://github.com/o/r/blob/main/a.yaml"},
                                {"ALLOWLIST_TTL_SECONDS", "1200"},
                                {"CI_PROVIDERS_URL", "https://github.com/o/r/blob/main/p.yml"},
                                {"MAX_DISPATCH_WORKERS", "32"},
                                {"RATE_LIMIT_PER_MIN", "100"},
                                {"CRCR_STATUS_TTL", "259200"},
                                {"ZOMBIE_TIMEOUT_SECONDS", "21600"},
                                {"HUD_API_URL", "https://hud.pytorch.org/api/"},
                                {"HUD_BOT_KEY", "k"},
                                {"HUD_MAX_RETRIES", "3"},
                                {"REDIS_ENDPOINT", "host:6379"},
                                {"REDIS_LOGIN", "x"},
                                {"SECRET_STORE_ARN", "arn:aws:x"},
                                {"AWS_REGION", "us-east-1"},
                                {"MAX_CLEANUP_WORKERS", "16"},
                                {"IN_PROGRESS_WARN_THRESHOLD", "1000"}};
  const auto loaded = load_settings(file(""), environment, {});
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (const auto& [variable, text] : environment) {
    const bool acts = std::ranges::find(loaded->shown, "$" + variable, &ShownSetting::origin) !=
                      loaded->shown.end();
    const bool is_named =
        std::ranges::find(loaded->unused, variable, &LoadedSettings::Unused::variable) !=
        loaded->unused.end();
    EXPECT_NE(acts, is_named) << variable;
  }
  EXPECT_EQ(loaded->values.hud_api_url, "https://hud.pytorch.org/api");
  EXPECT_EQ(shown(*loaded, "hud_bot_key").value, "(hidden)");
  EXPECT_EQ(loaded->values.status_ttl_seconds, 259200);
}

TEST_F(SettingsTest, IssuersSayWhereTheirTokensNameTheCaller) {
  const auto loaded = load_settings(file(R"(oidc_issuers:
  - {issuer: "https://a.test", keys: "https://a.test/jwks"}
  - {issuer: "https://b.test", keys: "https://b.test/jwks", kind: buildkite}
  - {issuer: "https://c.test", keys: "https://c.test/jwks", identity_claim: project}
  - {issuer: "https://agent.buildkite.com", keys: "https://d.test/jwks"}
)"),
                                    {}, {});
  ASSERT_TRUE(loaded) << loaded.error().message;
  using Kind = github::IssuerKind;
  std::vector<Kind> kinds;
  for (const OidcIssuer& one : loaded->values.oidc_issuers) kinds.push_back(one.kind);
  EXPECT_EQ(kinds, (std::vector{Kind::github, Kind::buildkite, Kind::generic, Kind::buildkite}));
  for (const char* bad : {"kind: gitlab", "kind: github, identity_claim: x", "identity_claim: ''"})
    EXPECT_THAT(
        error(std::string{"oidc_issuers: [{issuer: 'https://a.test', keys: 'https://b.test', "} +
              bad + "}]\n"),
        HasSubstr("oidc_issuers"))
        << bad;
  const auto usual = default_issuers();
  ASSERT_EQ(usual.size(), 2U);
  EXPECT_EQ(usual[1].issuer, "https://agent.buildkite.com");
  EXPECT_EQ(usual[1].kind, Kind::buildkite);
}

TEST_F(SettingsTest, WhatLiesOnGithubIsAskedForLessOften) {
  const auto interval = [&](const Environment& environment) {
    const auto loaded = load_settings(file(""), environment, {});
    EXPECT_TRUE(loaded);
    return loaded ? shown(*loaded, "allowlist_ttl_seconds").value : std::string{};
  };
  const std::pair<std::string, std::string> list{"ALLOWLIST_URL",
                                                 "https://github.com/o/r/blob/m/a"};
  EXPECT_EQ(interval({}), "1");
  EXPECT_EQ(interval({list}), "300");
  EXPECT_EQ(interval({list, {"ALLOWLIST_TTL_SECONDS", "20"}}), "20");
  EXPECT_EQ(interval({list, {"CROSSCHECK_ALLOWLIST", "a.yaml"}}), "1");
  EXPECT_EQ(interval({{"CROSSCHECK_ALLOWLIST", "a.yaml"},
                      {"CI_PROVIDERS_URL", "https://github.com/o/r/blob/m/p"}}),
            "300");
}

TEST_F(SettingsTest, TheKeyOfAnotherHudTravelsByHttpsOnly) {
  for (const char* good : {"https://hud.test/api", "http://127.0.0.1:8080/api"})
    EXPECT_TRUE(load_settings(file(""), {{"HUD_API_URL", good}}, {})) << good;
  for (const char* bad :
       {"http://hud.test/api", "http://127.0.0.1.evil.test/", "hud.test", "https://u@hud.test/"}) {
    const auto loaded = load_settings(file(""), {{"HUD_API_URL", bad}}, {});
    ASSERT_FALSE(loaded) << bad;
    EXPECT_THAT(loaded.error().message, HasSubstr("hud_api_url"));
  }
  EXPECT_FALSE(load_settings(file(""), {{"HUD_BOT_KEY", "a\nb"}}, {}));
}

TEST_F(SettingsTest, CommandsAreByRepositoryWhateverTheCase) {
  const auto loaded =
      load_settings(file("local_commands:\n  Org/One: make test\n  org/two: x=1 sh -c y\n"), {},
                    {{"local_commands", "--command", "org/ONE=a b=c"}});
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->values.local_commands.size(), 2U);
  EXPECT_EQ(loaded->values.local_commands[0].second, "a b=c");
  EXPECT_EQ(loaded->values.local_commands[1].second, "x=1 sh -c y");
}

TEST(ParseListen, Table) {
  struct Case {
    std::string_view text;
    std::string_view host;
    int port;  // -1: refused
  };
  for (const auto& [text, host, port] :
       {Case{"127.0.0.1:8080", "127.0.0.1", 8080}, Case{"localhost:0", "localhost", 0},
        Case{"[::1]:80", "::1", 80}, Case{"::1:80", "", -1}, Case{":80", "", -1},
        Case{"[]:80", "", -1}, Case{"host", "", -1}, Case{"host:", "", -1},
        Case{"host:65536", "", -1}, Case{"host:-1", "", -1}, Case{"host:80 ", "", -1},
        Case{"", "", -1}}) {
    const auto address = parse_listen(text);
    ASSERT_EQ(address.has_value(), port >= 0) << text;
    if (!address) continue;
    EXPECT_EQ(address->host, host) << text;
    EXPECT_EQ(address->port, port) << text;
  }
}

}  // namespace
}  // namespace crosscheck::cli
