#include "crosscheck/gate/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"

namespace crosscheck::gate {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

base::Time now() { return *base::parse_rfc3339("2026-12-01T00:00:00Z"); }

std::string error_of(std::string_view text) {
  const auto manifest = parse_manifest(text, "gate.yaml");
  EXPECT_FALSE(manifest) << text;
  if (manifest) return {};
  EXPECT_EQ(manifest.error().fault, base::Fault::invalid_input);
  return base::to_string(manifest.error());
}

std::vector<std::string> messages(const std::vector<Finding>& findings, bool refused) {
  std::vector<std::string> all;
  for (const auto& finding : findings) {
    if (finding.refused == refused) all.push_back(finding.where + ": " + finding.message);
  }
  return all;
}

TEST(Manifest, SaysWhatItIsAsked) {
  const auto manifest = manifest_of(k_manifest);
  EXPECT_EQ(manifest.name, "upgrade");
  EXPECT_EQ(manifest.candidate.python, "/opt/next/bin/python");
  ASSERT_EQ(manifest.workloads.size(), 1U);
  EXPECT_EQ(manifest.workloads[0].gates.size(), k_gates);
  EXPECT_DOUBLE_EQ(manifest.classes.at("nightly").peak_memory, 0.10);
  EXPECT_THAT(cells(manifest), ElementsAre(CellId{"mlp", "cpu", Phase::inference}));
  EXPECT_THAT(check(manifest, now()), IsEmpty());
}

TEST(Manifest, ErrorsNameThePlaceAndTheRemedy) {
  struct Row {
    std::string_view what, by, message;
  };
  const std::vector<Row> rows{
      {"format: 1", "format: 2", "gate.yaml:1:9: format 2 is not known"},
      {"name: upgrade", "name: ../x", "gate.yaml:2:7: the name of the manifest is none"},
      {"name: upgrade\n", "", "the manifest lacks 'name'"},
      {"caveats:", "caveat:", "did you mean 'caveats'?"},
      {"python: /opt/base/bin/python", "pyton: x", "baseline has no key 'pyton'"},
      {", python: /opt/base/bin/python", "", "baseline names no environment"},
      {"[cpu]", "[cpuu]", "'cpuu' is no backend that PyTorch brings"},
      {"[cpu]", "[cpu, cpu]", "the backend 'cpu' stands twice"},
      {"[cpu]", "[]", "backends is empty"},
      {"latency: 5 %", "latency: 5", "latency is no share between 0 and 1"},
      {"latency: 5 %", "latency: -5 %", "latency is no share"},
      {"latency: 5 %", "latency: nan", "latency is no share"},
      {"class: nightly", "class: nightli", "there is no class 'nightli'"},
      {"[correctness", "[corectness", "did you mean 'correctness'?"},
      {"[correctness", "[latency", "'latency' stands twice in gates"},
      {"workload: fallback.mlp\n", "warmup: 5\n", "says not exactly one thing to run"},
      {"workload: fallback.mlp\n", "workload: x\n    command: [y]\n", "not exactly one thing"},
      {"class: nightly\n", "class: nightly\n    iterations: 0\n", "iterations is no number from 1"},
      {"class: nightly\n", "class: nightly\n    iterations: 7x\n", "iterations is no number"},
      {"class: nightly\n", "class: nightly\n    time_limit: 5\n",
       "time_limit is no length of time"},
      {"class: nightly\n", "class: nightly\n    size: huge\n", "'huge' is no size"},
      {"class: nightly\n", "class: nightly\n    in_use: maybe\n", "neither true nor false"},
      {"class: nightly\n", "class: nightly\n    backends: [cuda]\n",
       "'cuda' is no entry of the manifest's backends"},
      {"caveats: [one machine]", "caveats: one", "caveats is text, not a list"},
      {"caveats: [one machine]", "waivers: [{cell: a, owner: b, reason: c, expires: tomorrow}]",
       "expires is no date"},
      {"caveats: [one machine]", "claims: [{id: a, workload: b, gain: 5 %}]",
       "there is no workload 'b'"},
      {"caveats: [one machine]", "fleet: [cuda]", "the fleet's 'cuda' is no entry of backends"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(error_of(with(k_manifest, row.what, row.by)), HasSubstr(row.message)) << row.by;
  }
}

// Each key of `properties` is taken by the loader under `before`, and no other.
void expect_keys(const base::json::value& schema, const std::string& before,
                 const std::string& after) {
  std::size_t known = 0;
  const auto refuses = [&](std::string_view key) {
    const auto read = parse_manifest(fmt::format("{}{}: 0{}", before, key, after), "gate.yaml");
    return !read && base::to_string(read.error()).find("has no key") != std::string::npos;
  };
  for (const auto& [key, value] : schema.at("properties").as_object()) {
    EXPECT_FALSE(refuses(key)) << key;
    EXPECT_FALSE(value.at("description").as_string().empty()) << key;
    ++known;
  }
  EXPECT_GT(known, 2U);
  EXPECT_FALSE(schema.at("additionalProperties").as_bool());
  EXPECT_TRUE(refuses("unknown"));
}

TEST(Manifest, SchemaHasTheKeysThatTheLoaderTakes) {
  const base::json::value schema(manifest_schema());
  const auto& properties = schema.at("properties");
  expect_keys(schema, "", "\n");
  expect_keys(properties.at("baseline"), "baseline: {", "}\n");
  expect_keys(properties.at("backends").at("items").at("anyOf").at(1), "backends: [{", "}]\n");
  expect_keys(properties.at("classes").at("additionalProperties"), "classes: {a: {", "}}\n");
  expect_keys(properties.at("workloads").at("items"), "workloads: [{", "}]\n");
  expect_keys(properties.at("claims").at("items"), "claims: [{", "}]\n");
  expect_keys(properties.at("waivers").at("items"), "waivers: [{", "}]\n");
  EXPECT_EQ(properties.at("workloads").at("items").at("properties").at("warmup").at("maximum"),
            100000);
}

TEST(Manifest, AllErrorsAreSaidAtOnce) {
  const auto text = with(k_manifest, "[cpu]", "[cpuu]");
  EXPECT_THAT(error_of(with(text, "format: 1", "format: 9")),
              AllOf(HasSubstr("format 9"), HasSubstr("cpuu")));
}

TEST(Manifest, WhatTheMethodRefuses) {
  struct Row {
    std::string_view what, by, message;
  };
  const std::vector<Row> rows{
      {"/opt/next/bin/python", "/opt/base/bin/python", "candidate: it is the baseline itself"},
      {"class: nightly\n", "class: nightly\n    warmup: 0\n", "nothing is set aside as warm-up"},
      {"class: nightly\n", "class: nightly\n    iterations: 20\n", "have no 95th percentile"},
      {"throughput, peak_memory, ", "throughput, ", "speed is judged without peak memory"},
      {"[correctness, ", "[", "speed is judged without drift"},
      {", rollback]", "]", "no rollback is rehearsed"},
      {"class: nightly\n", "class: nightly\n    production_sequence: 4096\n",
       "its sequences are shorter than production's 4096"},
      {"class: nightly\n", "class: nightly\n    gate_on_cpu_time: true\n    threads: 2\n",
       "CPU time stands for latency only"},
      {"caveats: [one machine]", "claims: [{id: a, workload: mlp, gain: 5 %}]",
       "claims.a: it names no source"},
  };
  for (const auto& row : rows) {
    const auto manifest = manifest_of(with(k_manifest, row.what, row.by));
    EXPECT_THAT(messages(check(manifest, now()), true), ::testing::Contains(HasSubstr(row.message)))
        << row.message;
  }
}

TEST(Manifest, WhatIsOnlyShown) {
  const auto text =
      with(with(k_manifest, "    frozen: {code: abc, data: def}\n", ""), "caveats: [one machine]",
           "waivers: [{cell: mlp/cpu/inference/latency, owner: a, reason: b, expires: "
           "2026-11-30}]");
  EXPECT_THAT(messages(check(manifest_of(text), now()), false),
              ElementsAre(HasSubstr("which code"), HasSubstr("which data"), HasSubstr("expired"),
                          HasSubstr("none is written down")));
}

TEST(Digest, IsOfWhatDecidesHoweverItIsWritten) {
  const auto digest_of = [](std::string_view text) { return digest(manifest_of(text)); };
  const auto original = digest_of(k_manifest);
  EXPECT_EQ(digest_of(with(k_manifest, "latency: 5 %", "latency: 0.05")), original);
  EXPECT_EQ(digest_of(std::string{k_manifest} + "plan: [begin]\n"), original);
  EXPECT_EQ(digest_of(std::string{k_manifest} +
                      "waivers: [{cell: a, owner: b, reason: c, expires: 2027-01-01}]\n"),
            original);
  for (const auto& [what, by] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"latency: 5 %", "latency: 6 %"},
           {"/opt/next", "/opt/after"},
           {"code: abc", "code: abd"},
           {"one machine", "two machines"},
           {"fallback.mlp", "fallback.transformer"},
           {", rollback]", "]"}}) {
    EXPECT_NE(digest_of(with(k_manifest, what, by)), original) << what;
  }
}

}  // namespace
}  // namespace crosscheck::gate
