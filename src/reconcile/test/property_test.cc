// Over random configurations and outcomes, through the real editor and loader: what is proposed
// loads and is what is meant, what is not proposed stays, and a second reconcile changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support.h"

namespace crosscheck::reconcile {
namespace {

using base::Outcome;

class Random {
 public:
  explicit Random(unsigned seed) : engine_{seed} {}
  std::size_t below(std::size_t n) { return engine_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> all) {
    return *(all.begin() + below(all.size()));
  }
  template <class T>
  void shuffle(std::vector<T>& all) {
    std::shuffle(all.begin(), all.end(), engine_);
  }

 private:
  std::mt19937 engine_;
};

constexpr const char* k_classes[] = {"TestA", "TestB"};
constexpr const char* k_methods[] = {"test_a", "test_b", "test_ab"};
constexpr const char* k_dtypes[] = {"", "float32", "int8"};

std::string random_name(Random& random) {
  const std::string method = k_methods[random.below(3)];
  const std::string class_name = k_classes[random.below(2)];
  switch (random.below(8)) {
    case 0:
      return "'test_.*'";
    case 1:
      return fmt::format("'{}::test_a.*'", class_name);
    case 2:
      return fmt::format("'.*_dev_{}'", k_dtypes[1 + random.below(2)]);
    case 3:
      return method;
    case 4:
      return fmt::format("{}_dev_{}", method, k_dtypes[1 + random.below(2)]);
    case 5:
      return fmt::format("{}DEV::{}_dev_{}", class_name, method, k_dtypes[1 + random.below(2)]);
    case 6:
      return fmt::format("{}::test_old_{}", class_name, method);
    default:
      return fmt::format("{}::{}", class_name, method);
  }
}

std::string random_rationale(Random& random, const std::string& mode) {
  if (random.one_in(2)) return {};
  std::string reason = mode == "mandatory_success" ? "passed_on_device"
                       : mode == "xfail"           ? random.of({"undecided", "crash", "flaky"})
                       : mode == "skip"            ? random.of({"out_of_scope", "timeout"})
                                                   : "device_error";
  std::string decider = random.of({"rule", "agent", "person"});
  if (decider == "person") reason = "person";
  std::string text = fmt::format("rationale: {{reason: {}, decided_by: {}", reason, decider);
  if (random.one_in(3))
    text += fmt::format(", expires: {}", random.of({"2020-01-01", "2030-01-01"}));
  return text + "}";
}

std::string random_entry(Random& random) {
  const std::string mode = random.of({"mandatory_success", "xfail", "xfail_strict", "skip"});
  std::vector<std::string> names{random_name(random)};
  while (random.one_in(2)) names.push_back(random_name(random));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const std::string rationale = random_rationale(random, mode);
  const std::string when = random.one_in(6) ? "when: {torch: '>=2.0'}" : "";
  const std::string edits = random.one_in(5) ? "edits: {dtypes: {exclude: [{name: int8}]}}" : "";
  std::string text;
  if (random.one_in(3)) {
    text = "    - {names: [";
    for (const auto& name : names) text += (&name == &names[0] ? "" : ", ") + name;
    text += "], mode: " + mode;
    for (const auto* more : {&rationale, &when, &edits})
      if (!more->empty()) text += ", " + *more;
    return text + "}  # flow\n";
  }
  text = "    # above\n    - names:  # here\n";
  for (const auto& name : names) text += "      - " + name + "  # of it\n";
  text += "      mode: " + mode + "  # mode\n";
  for (const auto* more : {&rationale, &when, &edits})
    if (!more->empty()) text += "      " + *more + "\n";
  return text;
}

std::string random_config(Random& random) {
  while (true) {
    std::string tests;
    for (std::size_t n = random.below(5); n > 0; --n) tests += random_entry(random);
    std::string text = suite_text(tests, random.of({"skip", "xfail", "mandatory_success"}));
    if (random.one_in(4)) text += "  global: {supported_dtypes: [{name: float32}]}\n";
    if (load_text({{"t.yaml", text}}).ok()) return text;
  }
}

struct World {
  config::CollectedSuite suite;
  std::vector<base::RunResults> runs;
  bool complete = true;
};

World random_world(Random& random) {
  World world;
  world.suite.name = "inventory";
  for (const char* class_name : k_classes) {
    for (const char* method : k_methods) {
      const bool instantiated = !random.one_in(3);
      for (const char* dtype : k_dtypes)
        if ((*dtype != '\0') == instantiated && !random.one_in(5))
          world.suite.tests.push_back(collected(class_name, method, dtype));
      if (!instantiated && random.one_in(3)) {
        // Parameters that no name tells apart.
        auto second = collected(class_name, method);
        second.id.variant = R"({"n":"2"})";
        world.suite.tests.push_back(std::move(second));
      }
    }
  }
  const std::size_t runs = random.below(6);
  std::vector<std::size_t> leaning;
  for (std::size_t i = 0; i < world.suite.tests.size(); ++i) leaning.push_back(random.below(4));
  for (std::size_t number = 0; number < runs; ++number) {
    base::RunResults run;
    run.header = header(static_cast<int>(number), random.of({"2.13.0", "2.14.0"}));
    for (std::size_t i = 0; i < world.suite.tests.size(); ++i) {
      const auto& test = world.suite.tests[i];
      if (random.one_in(6)) continue;
      const Outcome other = random.of({Outcome::failed, Outcome::crashed, Outcome::timed_out,
                                       Outcome::environment_error, Outcome::not_run,
                                       Outcome::skipped, Outcome::harness_error, Outcome::xfailed});
      const bool pass = leaning[i] < 2 || (leaning[i] == 2 && random.one_in(2));
      if (random.one_in(12)) {
        run.results.push_back(result(test, Outcome::failed, 1));
        run.results.push_back(result(test, Outcome::passed, 2));
      } else {
        run.results.push_back(result(test, pass ? Outcome::passed : other));
      }
    }
    world.runs.push_back(std::move(run));
  }
  world.complete = !random.one_in(4);
  return world;
}

void fill(History& history, const World& world) {
  for (const auto& run : world.runs) history.add(run.header, run.results);
}

constexpr std::string_view k_today = "2026-11-30";

struct Outcomes {
  std::string text;  // after
  std::vector<std::string> changes;
  bool pending = false;
  bool tied = false;
};

Outcomes apply(const std::string& text, const World& world, const Options& options) {
  const config::Loaded loaded = load_text({{"t.yaml", text}});
  EXPECT_TRUE(loaded.ok()) << to_string(loaded.findings.at(0)) << "\n" << text;
  if (!loaded.ok()) return {};
  History history;
  fill(history, world);
  config::Circumstances where;
  where.torch = *config::parse_version("2.14.0");
  const Proposals proposals =
      propose(*loaded.config, world.suite, world.complete, history, where, options, k_today);
  Outcomes outcomes{text, brief(proposals), proposals.pending(), !proposals.ties.empty()};
  const auto texts = write(*loaded.config, proposals);
  EXPECT_TRUE(texts) << (texts ? "" : texts.error().message);
  if (!texts) return outcomes;
  if (!texts->empty()) outcomes.text = texts->begin()->second;
  const config::Loaded after = load_text({{"t.yaml", outcomes.text}});
  EXPECT_TRUE(after.ok()) << to_string(after.findings.at(0)) << "\n" << outcomes.text;
  if (!after.ok()) return outcomes;
  const auto verified = verify(*after.config, world.suite, where, proposals);
  EXPECT_TRUE(verified) << (verified ? "" : verified.error().message);
  return outcomes;
}

TEST(Property, ASecondReconcileChangesNothing) {
  std::size_t changed = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Random random{seed};
    const std::string before = random_config(random);
    World world = random_world(random);
    Options options;
    options.passes = 1 + random.below(3);
    if (random.one_in(4)) options.fall_tests = 1;
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, before));
    const Outcomes first = apply(before, world, options);
    if (first.text != before) ++changed;
    if (first.tied) continue;
    const Outcomes second = apply(first.text, world, options);
    EXPECT_EQ(second.text, first.text) << ::testing::PrintToString(first.changes);
    // What is still pending after that is held back.
    EXPECT_TRUE(options.fall_tests == 1 || !second.pending);
    random.shuffle(world.runs);
    EXPECT_EQ(apply(before, world, options).changes, first.changes);
    if (HasFailure()) {
      ADD_FAILURE() << "after\n"
                    << first.text << ::testing::PrintToString(first.changes)
                    << ::testing::PrintToString(second.changes);
      return;
    }
  }
  EXPECT_GT(changed, 500U);
}

}  // namespace
}  // namespace crosscheck::reconcile
