#include "crosscheck/gate/privacy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/gate/matrix.h"
#include "crosscheck/gate/verify.h"
#include "support.h"

namespace crosscheck::gate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

base::Time now() { return *base::parse_rfc3339("2026-12-01T00:00:00Z"); }

const Surroundings k_here{
    .home = "/srv/people/alicia", .user = "alicia", .host = "gpu17.lab.example", .salt = "salt"};

// Each is found by itself, wherever it stands.
const std::vector<std::string> k_secrets{
    "/srv/people/alicia/thesis/run.py",
    // Put together: no file here names a folder of somebody's.
    std::string{"/ho"} + "me/bertram/models/private.pt",
    std::string{"/Us"} + "ers/carla/notes",
    "alicia",
    "gpu17.lab.example",
    "dora.d@mail.example.org",
    "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4",
    "AKIAIOSFODNN7EXAMPLE",
    "hf_abcdefghijKLMNOPqrst",
    "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "Zx9Kq2Lm8Vn4Bt6Yw1Rc3Pd5Gf7Hj0Sa",
};

std::string canonical(const base::json::value& value) { return base::canonical_json(value); }

// A matrix of `manifest` with one cell measured; `answer` stands in each launch's record.
BundleFiles files_of(const std::string& text, const base::json::object& answer,
                     const std::string& command) {
  const base::TemporaryFolder folder;
  const auto manifest = manifest_of(text);
  auto matrix = Matrix::freeze(folder.path() / "m", manifest, now());
  EXPECT_TRUE(matrix);
  const auto id = cells(manifest).front();
  std::size_t launches = 0;
  while (const auto request =
             next_launch(manifest, id, matrix->launches(id), matrix->seed(), "/checkpoints")) {
    auto whole = answer;
    whole["format"] = 1;
    whole["status"] = "ok";
    whole["output"] = {{"digest", "aa"}, {"shape", {2}}, {"nan", 0}, {"inf", 0}, {"rmse", 1e-7}};
    whole["determinism"] = {{"runs", 5}, {"forward_mismatches", 0}};
    whole["checkpoint"] = {{"ok", true}, {"reason", ""}};
    whole["export"] = {{"export", {{"ok", true}, {"reason", ""}}}};
    const auto result = read_launch_result(canonical(whole));
    EXPECT_TRUE(result);
    EXPECT_TRUE(matrix->add({*request, command, now(), {}, canonical(whole)}, *result));
    if (++launches > 20) break;
  }
  EXPECT_TRUE(matrix->keep_environments(
      {{"baseline", {{"environment", {{"OMP_NUM_THREADS", "4"}, {"MY_SETTING", "hidden value"}}}}},
       {"candidate", {{"interpreter", command}}}},
      now()));
  auto files = records_of(folder.path() / "m");
  EXPECT_TRUE(files);
  files->emplace("manifest.yaml", text);
  return *files;
}

std::string untimed() {
  return with(k_manifest,
              "[correctness, latency, throughput, peak_memory, determinism, compile_export, "
              "rollback]",
              "[correctness, determinism, compile_export, rollback]");
}

TEST(Privacy, ManifestIsWrittenAsTheLoaderReadsIt) {
  const auto text = std::string{k_manifest} +
                    "plan: ['a: b', '# c']\nrollback: ['echo \"x\"']\nfleet: [cpu]\n"
                    "claims: [{id: c, source: u, workload: mlp, gate: latency, gain: 7.5 %}]\n"
                    "waivers: [{cell: a, owner: b, reason: c, expires: 2027-01-02}]\n";
  const auto manifest =
      manifest_of(with(text, "class: nightly\n", "class: nightly\n    time_limit: 90s\n"));
  const auto again = parse_manifest(base::pretty_json(manifest_json(manifest)), "written");
  ASSERT_TRUE(again) << base::to_string(again.error());
  EXPECT_EQ(digest(*again), digest(manifest));
  EXPECT_EQ(canonical(manifest_json(*again)), canonical(manifest_json(manifest)));
}

TEST(Privacy, NoPlantedSecretSurvivesAndTheLaunchesSayTheSame) {
  const std::vector<std::pair<std::string, std::string>> around{
      {"", ""},    {"see ", " for it"}, {"'", "'"},    {"\"", "\""},
      {"a=", ";"}, {"(", ")"},          {"x\n", "\ny"}};
  for (const auto level : {Privacy::standard, Privacy::strict}) {
    for (const auto& [before, after] : around) {
      base::json::array planted;
      base::json::object keys;
      std::string line;
      for (const auto& secret : k_secrets) {
        planted.emplace_back(before + secret + after);
        keys[before + secret + after] = 1;
        line += " " + before + secret + after;
      }
      const auto first = canonical(planted.front());
      auto text = with(untimed(), "[one machine]", canonical(planted));
      text = with(text, "label: current", "label: " + first) + "plan: " + canonical(planted) +
             " # " + k_secrets.back() + "\n";
      text = with(text, "code: abc", "code: " + first);
      const auto given = files_of(
          text, {{"notes", planted}, {"line", line}, {"deep", {keys}}, {"printed", "a sample"}},
          "PYTHONPATH=x python" + line);
      const auto was = judge_files(given, "here", now());
      ASSERT_TRUE(was) << base::to_string(was.error());
      const auto files = redact(given, level, k_here);
      ASSERT_TRUE(files) << base::to_string(files.error());
      for (const auto& secret : k_secrets) {
        EXPECT_THAT(given.at("launches/000000.json"), HasSubstr(secret));
        for (const auto& [name, content] : *files) {
          EXPECT_THAT(content, Not(HasSubstr(secret))) << name << " " << before;
        }
      }
      for (const auto& [name, content] : *files) {
        EXPECT_THAT(content, Not(HasSubstr("a sample"))) << name;
        EXPECT_THAT(content, Not(HasSubstr("hidden value"))) << name;
      }
      const auto is = judge_files(*files, "there", now());
      ASSERT_TRUE(is) << base::to_string(is.error());
      EXPECT_EQ(is->decision, was->decision);
      const auto& gates = is->report.at("cells").at(0).at("gates").as_array();
      for (std::size_t i = 0; i < gates.size(); ++i) {
        EXPECT_EQ(gates[i].at("status"),
                  was->report.at("cells").at(0).at("gates").at(i).at("status"));
      }
    }
  }
}

TEST(Privacy, CalledSecretsAreFoundByTheirNames) {
  const auto files = redact(
      files_of(untimed(), {{"api_key", "short1"}, {"db_password", "short2"}, {"tokenizer", "gpt2"}},
               "HF_TOKEN=short3 curl https://me:short4@example.com -H 'Authorization: Bearer "
               "short5xyz'"),
      Privacy::standard, k_here);
  ASSERT_TRUE(files);
  for (const auto& [name, content] : *files) {
    EXPECT_THAT(content, Not(::testing::ContainsRegex("short[1-5]"))) << name;
  }
  EXPECT_THAT(files->at("launches/000000.json"), HasSubstr("gpt2"));
  EXPECT_THAT(files->at("environments/000.json"), HasSubstr(R"("OMP_NUM_THREADS":"4")"));
  const auto said = base::parse_json(files->at("privacy.json"), "privacy.json").value();
  EXPECT_EQ(said.at("level").as_string(), "standard");
  EXPECT_GT(said.at("redacted").at("variable").as_int64(), 0);
}

TEST(Privacy, SameValuesStayTheSameAndOtherSaltsGiveOthers) {
  const auto text = with(untimed(), "/opt/base/bin/python", k_here.home + "/a/bin/python");
  const auto before = files_of(text, {}, k_here.home + "/a/bin/python");
  const auto once = redact(before, Privacy::standard, k_here).value();
  EXPECT_EQ(redact(before, Privacy::standard, k_here).value(), once);
  const auto manifest = parse_manifest(once.at("manifest.yaml"), "m").value();
  EXPECT_THAT(once.at("launches/000000.json"), HasSubstr(manifest.baseline.python));
  auto other = k_here;
  other.salt = "another";
  EXPECT_NE(redact(before, Privacy::standard, other).value(), once);
  EXPECT_EQ(redact(before, Privacy::off, k_here).value(), before);
}

}  // namespace
}  // namespace crosscheck::gate
