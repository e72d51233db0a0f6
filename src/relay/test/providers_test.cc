#include "crosscheck/relay/providers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crosscheck/relay/providers_file.h"

namespace crosscheck::relay {
namespace {

namespace json = base::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Providers parsed(std::string_view text) {
  auto providers = parse_providers(text, "p.yaml");
  EXPECT_TRUE(providers) << providers.error().message;
  return std::move(providers).value_or(Providers{});
}

std::string repo_of(const Providers& providers, std::string_view organization,
                    std::string_view pipeline) {
  const Pipeline* found = providers.find(organization, pipeline);
  return found == nullptr ? "" : found->repo.full_name();
}

constexpr std::string_view k_file = R"(providers:
  github:
    issuer: https://evil.test
    jwks_uri: https://evil.test/jwks
  buildkite:
    issuer: https://evil.test
    repo_map:
      org-1/pipe-1: vllm-project/vllm
      org-1/pipe-2:
        repo: org/two
        required_claims:
          build_branch: [main, release/1]
          build_source: webhook
          build_number: 12
buildkite:
  org-9/pipe-9: org/nine
)";

TEST(ParseProviders, TheNewFormWinsOverTheOld) {
  const auto providers = parsed(k_file);
  EXPECT_EQ(providers.size(), 2U);
  EXPECT_EQ(repo_of(providers, "org-1", "pipe-1"), "vllm-project/vllm");
  EXPECT_EQ(repo_of(providers, "org-1", "pipe-2"), "org/two");
  EXPECT_EQ(repo_of(providers, "org-9", "pipe-9"), "");
  EXPECT_EQ(repo_of(providers, "ORG-1", "pipe-1"), "");
  EXPECT_EQ(repo_of(providers, "org-1", ""), "");
}

TEST(ParseProviders, TheOldFormCountsWhereTheNewOneIsEmpty) {
  for (const std::string_view head :
       {"", "providers:\n", "providers:\n  buildkite:\n", "providers:\n  github: {}\n",
        "providers:\n  buildkite:\n    repo_map:\n"})
    EXPECT_EQ(repo_of(parsed(std::string{head} + "buildkite:\n  a/b/c: org/nine\n"), "a", "b/c"),
              "org/nine")
        << head;
}

TEST(ParseProviders, NothingIsMappedByAnEmptyFile) {
  for (const std::string_view text :
       {"# none yet\n", "providers: {}\n", "providers:\n", "other: {x: [1]}\n"})
    EXPECT_EQ(parsed(text).size(), 0U) << text;
}

TEST(ParseProviders, ErrorsNameThePlace) {
  struct Case {
    std::string_view text;
    std::string_view at;
    std::string_view says;
  };
  for (const auto& [text, at, says] : {
           Case{"", "p.yaml:1:1:", "nothing in it"},
           Case{" \r\n\t\n", "p.yaml:1:1:", "nothing in it"},
           Case{"- a\n", "p.yaml:1:1:", "mapping"},
           Case{"providers: [a]\n", "p.yaml:1:12:", "providers"},
           Case{"providers:\n  buildkite: x\n", "p.yaml:2:14:", "providers.buildkite"},
           Case{"buildkite: [a]\n", "p.yaml:1:12:", "mapping of pipelines"},
           Case{"buildkite:\n  nothing: o/r\n", "p.yaml:2:3:", "'nothing'"},
           Case{"buildkite:\n  /b: o/r\n", "p.yaml:2:3:", "organization_id/pipeline_id"},
           Case{"buildkite:\n  a/b: norepo\n", "p.yaml:2:8:", "'norepo'"},
           Case{"buildkite:\n  a/b: [o/r]\n", "p.yaml:2:8:", "expected a repository"},
           Case{"buildkite:\n  a/b: {required_claims: {}}\n", "p.yaml:2:8:", "a repository"},
           // What would silently demand nothing is refused.
           Case{"buildkite:\n  a/b: {repo: o/r, required_claim: {x: y}}\n",
                "p.yaml:2:20:", "required_claim"},
           Case{"buildkite:\n  a/b: {repo: o/r, required_claims: [x]}\n",
                "p.yaml:2:37:", "required_claims"},
           Case{"buildkite:\n  a/b: {repo: o/r, required_claims: {x: []}}\n",
                "p.yaml:2:41:", "'x'"},
           Case{"buildkite:\n  a/b: {repo: o/r, required_claims: {x: {}}}\n",
                "p.yaml:2:41:", "'x'"},
           Case{"buildkite: {a/b: o/r\n", "p.yaml:", ""},
       }) {
    const auto providers = parse_providers(text, "p.yaml");
    ASSERT_FALSE(providers) << text;
    EXPECT_THAT(providers.error().message, StartsWith(std::string{at})) << text;
    EXPECT_THAT(providers.error().message, HasSubstr(std::string{says})) << text;
  }
}

// One on GitHub, which takes its time to say nothing.
class SilentSource final : public TextSource {
 public:
  explicit SilentSource(int& asked) : asked_{asked} {}
  const std::string& name() const override { return name_; }
  base::Result<std::optional<std::string>> read() override {
    ++asked_;
    return base::fail(base::Fault::unavailable, "no answer");
  }

 private:
  const std::string name_ = "p.yaml";
  int& asked_;
};

TEST(ProvidersFile, IsAskedForOnceAtTheStart) {
  int asked = 0;
  ProvidersFile file{std::make_unique<SilentSource>(asked)};
  const auto loaded = file.load();
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().fault, base::Fault::unavailable);
  EXPECT_EQ(file.error(), "no answer");
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(file.current()->size(), 0U);
}

TEST(MapPipeline, TheMappingSaysWhoCalls) {
  const auto providers = parsed(k_file);
  const auto mapped = map_pipeline({{"organization_id", "org-1"},
                                    {"pipeline_id", "pipe-1"},
                                    {"repository", "somebody/elses"},
                                    {"build_branch", "x"}},
                                   providers);
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(mapped->at("repository"), "vllm-project/vllm");
  EXPECT_EQ(mapped->at("build_branch"), "x");
}

TEST(MapPipeline, RequiredClaims) {
  const auto providers = parsed(k_file);
  const json::object good{{"organization_id", "org-1"},
                          {"pipeline_id", "pipe-2"},
                          {"build_branch", "release/1"},
                          {"build_source", "webhook"},
                          {"build_number", 12}};
  EXPECT_TRUE(map_pipeline(good, providers));
  struct Case {
    std::string_view claim;
    json::value value;
    std::string_view says;
  };
  for (const auto& [claim, value, says] :
       {Case{"build_branch", "Main", "'Main'"},
        Case{"build_branch", json::array{"main"}, "missing"},
        Case{"build_source", nullptr, "missing"}, Case{"build_source", "", "''"},
        Case{"build_number", 13, "'13'"}, Case{"build_number", 12.5, "'12.5'"}}) {
    auto claims = good;
    claims[claim] = value;
    const auto refused = map_pipeline(claims, providers);
    ASSERT_FALSE(refused) << claim;
    EXPECT_EQ(refused.error().fault, base::Fault::forbidden);
    EXPECT_THAT(refused.error().message, HasSubstr(std::string{claim}));
    EXPECT_THAT(refused.error().message, HasSubstr(std::string{says}));
  }
  auto absent = good;
  absent.erase("build_branch");
  EXPECT_FALSE(map_pipeline(absent, providers));
}

TEST(MapPipeline, WhoIsNotMappedIsForbidden) {
  const json::object claims{{"organization_id", "org-uuid"}, {"pipeline_id", "pipe-uuid"}};
  for (const auto& providers : {Providers{}, parsed(k_file)}) {
    const auto refused = map_pipeline(claims, providers);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, base::Fault::forbidden);
    EXPECT_THAT(refused.error().message, HasSubstr("org-uuid"));
    EXPECT_THAT(refused.error().message, HasSubstr("pipe-uuid"));
  }
  for (const char* name : {"organization_id", "pipeline_id"}) {
    auto partly = claims;
    partly.erase(name);
    const auto refused = map_pipeline(partly, parsed(k_file));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, base::Fault::unauthorized);
  }
}

}  // namespace
}  // namespace crosscheck::relay
