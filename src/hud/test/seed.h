#pragma once

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/store/run_store.h"
#include "crosscheck/store/store.h"

// Rows as the relay and the runner write them, for tests of the pages.
namespace crosscheck::hud::test {

using namespace std::chrono_literals;

inline constexpr base::Time k_now{std::chrono::sys_days{std::chrono::year{2026} / 9 / 14} + 15h +
                                  42min + 7s};

struct SeedDelivery {
  std::string delivery_id = {};
  std::string event_type = "pull_request";
  std::string action = "synchronize";
  std::optional<std::int64_t> pr_number = {};
  std::string title = {};
  std::string head_sha = {};
  std::string head_ref = "fix";
  std::string sender = "ezyang";
  base::Time at = k_now;
  std::optional<base::Time> said_at = {};
};

struct SeedJob {
  std::optional<std::int64_t> delivery = {};  // row id; none: a nightly report
  std::string delivery_id = {};
  std::string event_type = "pull_request";
  std::string repo = "acme/refdev";
  std::string level = "L2";
  std::string device = "refdev";
  std::optional<std::string> head_sha = {};
  std::optional<std::int64_t> pr_number = {};
  std::string run_id = "1";
  std::int64_t attempt = 1;
  std::string name = "test";
  std::string workflow = "CI";
  std::optional<std::string> conclusion = {};  // none: in progress
  std::string concluded_by = "downstream";
  base::Time at = k_now;
  std::optional<base::Duration> queue = 92s;
  base::Duration execution = 9min + 41s;
  std::optional<std::string> url = {};
  std::optional<std::int64_t> passed = {};
  std::optional<std::int64_t> failed = {};
  std::optional<std::int64_t> skipped = {};
  std::optional<std::string> digest = {};
  std::string body = R"({"workflow":{"name":"CI","status":"completed"}})";
  std::int64_t commit_verified = 1;
};

class Seed {
 public:
  explicit Seed(store::Store& store) : store_{store} {}

  void backend(const std::string& repo, const std::string& level, const std::string& device,
               const std::vector<std::string>& oncalls, bool listed = true) {
    base::json::array names(oncalls.begin(), oncalls.end());
    execute(
        "INSERT INTO backends (repo_key, repo, level, device, oncalls, listed, since) VALUES ($1, "
        "$2, $3, $4, $5, $6, $7)",
        {base::to_lower_ascii(repo), repo, level, device, base::canonical_json(names), listed,
         k_now - 24h * 60});
  }

  std::int64_t delivery(const SeedDelivery& d) {
    return insert(
        "INSERT INTO deliveries (delivery_id, event_type, action, pr_number, pr_title, head_sha, "
        "head_ref, base_sha, base_ref, git_ref, sender, received_at, said_at) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id",
        {d.delivery_id, d.event_type, d.action, d.pr_number, d.title, d.head_sha, d.head_ref,
         "b31c0ffee0b31c0ffee0b31c0ffee0b31c0ffee0", "main",
         d.event_type == "push" ? std::optional<std::string>{"refs/heads/main"} : std::nullopt,
         d.sender, d.at, d.said_at});
  }

  void dispatch(std::int64_t delivery, const std::string& repo, const std::string& level,
                const std::string& state, base::Time at, const std::string& error = "",
                const std::string& device = "refdev") {
    execute(
        "INSERT INTO dispatches (delivery, repo_key, repo, level, device, state, attempts, "
        "not_before, last_error, created_at, sent_at) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        {delivery, base::to_lower_ascii(repo), repo, level, device, state, state == "dead" ? 8 : 1,
         at, error.empty() ? std::optional<std::string>{} : error, at,
         state == "sent" ? std::optional<base::Time>{at + 1s} : std::nullopt});
  }

  std::int64_t job(const SeedJob& j) {
    const bool done = j.conclusion.has_value();
    return insert(
        "INSERT INTO jobs (delivery, delivery_id, event_type, repo_key, repo, level, device, "
        "head_sha, pr_number, run_id, run_attempt, job_name, state, "
        "conclusion, concluded_by, first_seen_at, started_at, completed_at, queue_us, "
        "execution_us, word_workflow, word_url, word_body, word_passed, "
        "word_failed, word_skipped, results_digest, commit_verified) VALUES ($1, $2, $3, $4, $5, "
        "$6, $7, $8, $9, "
        "$10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, "
        "$21, $22, $23, $24, $25, $26, $27, $28) RETURNING id",
        {j.delivery,
         j.delivery_id,
         j.event_type,
         base::to_lower_ascii(j.repo),
         j.repo,
         j.level,
         j.device,
         j.head_sha,
         j.pr_number,
         j.run_id,
         j.attempt,
         j.name,
         done ? "completed" : "in_progress",
         j.conclusion,
         done ? std::optional<std::string>{j.concluded_by} : std::nullopt,
         j.at,
         j.at,
         done ? std::optional<base::Time>{j.at + j.execution} : std::nullopt,
         micros(j.queue),
         done ? std::optional<std::int64_t>{j.execution.count()} : std::nullopt,
         j.workflow,
         j.url,
         j.body,
         j.passed,
         j.failed,
         j.skipped,
         j.digest,
         j.commit_verified});
  }

  void run(const base::RunResults& results, const std::string& digest,
           const std::string& repo = "a/b") {
    const auto done = store_.write([&](store::Tx& tx) -> base::Result<void> {
      auto id = store::import_run(tx, results, {repo, digest});
      if (!id) return tl::unexpected(id.error());
      return {};
    });
    if (!done) throw std::runtime_error(done.error().message);
  }

  static base::TestResult test(const std::string& method, const std::string& op,
                               const std::string& dtype, base::Outcome outcome,
                               base::FailureKind kind = base::FailureKind::none,
                               const std::string& message = "", const std::string& detail = "") {
    base::TestResult result;
    std::string op_name = op;
    for (auto& c : op_name) {
      if (c == '.') c = '_';
    }
    const std::string name = fmt::format("{}_{}_refdev_{}", method, op_name, dtype);
    result.id = {"test_ops.py", "TestOps", method,
                 fmt::format(R"({{"device":"refdev:0","dtype":"{}","op":"{}"}})", dtype, op)};
    result.node_id = "test_ops.py::TestOpsPRIVATEUSE1::" + name;
    result.outcome = outcome;
    result.kind = kind;
    result.message = message;
    result.detail = detail;
    if (base::is_failure(outcome))
      result.fingerprint = fmt::format("{}:{}", to_string(kind), message.substr(0, 30));
    result.duration =
        4200us + std::chrono::microseconds{static_cast<std::int64_t>(name.size()) * 731};
    return result;
  }

  static base::RunResults run_of(const std::string& run_id, std::vector<base::TestResult> results) {
    base::RunResults run;
    run.header.run_id = run_id;
    run.header.combination = {"refdev",
                              "4e1d2c9",
                              "2.13.0+cpu",
                              "sha256:9f31ab0c55e2",
                              "refdev (CPU stand-in)",
                              "3b8e5d2f7a90c1e4d6b8a0f2c4e6d8b0a2c4e6f8091b3d5f7a9c1e3d5b7f9a1c"};
    run.header.command = {"crosscheck", "run",    "--suite",  "bundled",
                          "--device",   "refdev", "--select", "quick and not slow"};
    run.header.selection = "bundled suite, quick set";
    run.header.started_at = k_now - 20min;
    run.header.finished_at = k_now - 19min;
    run.header.environment = {{"python", "3.11.2"},
                              {"torch", "2.13.0+cpu"},
                              {"machine", "x86_64"},
                              {"threads", "2"},
                              {"blas", "mkl"}};
    run.results = std::move(results);
    return run;
  }

  void execute(std::string_view sql, const store::Parameters& parameters) {
    const auto done = store_.write([&](store::Tx& tx) -> base::Result<void> {
      auto n = tx.execute(sql, parameters);
      if (!n) return tl::unexpected(n.error());
      return {};
    });
    if (!done) throw std::runtime_error(done.error().message);
  }

 private:
  static std::optional<std::int64_t> micros(const std::optional<base::Duration>& duration) {
    if (!duration) return std::nullopt;
    return duration->count();
  }
  std::int64_t insert(std::string_view sql, const store::Parameters& parameters) {
    auto id = store_.write_value([&](store::Tx& tx) -> base::Result<std::int64_t> {
      auto rows = tx.query(sql, parameters);
      if (!rows) return tl::unexpected(rows.error());
      return rows->front().integer(0);
    });
    if (!id) throw std::runtime_error(id.error().message);
    return *id;
  }

  store::Store& store_;
};

struct Seeded {
  std::int64_t pr = 0;
  std::string head_sha = {};
  std::int64_t failed_job = 0;
  std::int64_t passed_job = 0;
  base::RunResults failed_run;
};

// A fleet of five backends over nine days, as a relay in use would hold it.
inline Seeded seed_fleet(store::Store& store) {
  Seed seed{store};
  seed.backend("acme/refdev", "L4", "refdev", {"ada", "grace"});
  seed.backend("Ascend/pytorch-npu", "L3", "npu", {"wei"});
  seed.backend("intel/torch-xpu-ops", "L2", "xpu", {"erik", "sun"});
  seed.backend("quiet/backend", "L2", "mtia", {});
  seed.backend("watcher/only", "L1", "hpu", {});

  const std::vector<std::pair<std::int64_t, std::string>> changes{
      {171203, "[inductor] Fold constants before lowering scatter"},
      {171211, "Make torch.linalg.lstsq accept zero-size batches"},
      {171224, "Add PrivateUse1 hooks for pinned memory"},
      {171236, "Fix index_put_ with boolean masks on non-contiguous self"},
      {171240, "[dynamo] Trace through functools.partial of a bound method"},
      {171252, "Remove deprecated cuda-only path in autocast"},
      {171259, "Speed up foreach kernels by grouping tensors once"},
      {171266, "Support complex32 in torch.nn.functional.pad"}};
  const auto sha_of = [](std::int64_t n, int revision) {
    return base::sha256_hex(fmt::format("{} {}", n, revision)).substr(0, 40);
  };
  Seeded seeded;

  std::vector<base::TestResult> tests;
  const auto failing = [&](const std::string& op, const std::string& dtype, base::Outcome outcome,
                           base::FailureKind kind, const std::string& message,
                           std::optional<base::Mismatch> mismatch = {}) {
    auto test = Seed::test("test_forward", op, dtype, outcome, kind, message,
                           "Traceback (most recent call last):\n  File "
                           "\"crosscheck_probe/suite/test_ops.py\", line 57, in test_forward\n"
                           "    actual = op(sample.input.to(device), *args, **kwargs)\n  File "
                           "\"torch/testing/_internal/opinfo/core.py\", line 1188, in __call__\n"
                           "    return self.op(*args, **kwargs)\n" +
                               message);
    test.mismatch = mismatch;
    tests.push_back(std::move(test));
  };
  failing("linalg.cholesky", "float32", base::Outcome::failed,
          base::FailureKind::unsupported_operator,
          "NotImplementedError: The operator 'aten::linalg_cholesky_ex.L' is not currently "
          "implemented for the refdev device.");
  failing("linalg.cholesky", "float64", base::Outcome::failed,
          base::FailureKind::unsupported_operator,
          "NotImplementedError: The operator 'aten::linalg_cholesky_ex.L' is not currently "
          "implemented for the refdev device.");
  failing("softmax", "float16", base::Outcome::failed, base::FailureKind::numerical_mismatch,
          "Tensor-likes are not close!\n\nMismatched elements: 14 / 25 (56.0%)\nGreatest absolute "
          "difference: 0.0341796875 at index (3, 1) (up to 1e-05 allowed)\n"
          "Greatest relative difference: 0.12109375 at index (0, 4) (up to 0.001 allowed)",
          base::Mismatch{0.0341796875, 0.12109375, 1e-05, 0.001});
  failing("index_put", "int64", base::Outcome::crashed, base::FailureKind::signal,
          "The process died: signal 11 (SIGSEGV)");
  failing("cumsum", "bfloat16", base::Outcome::timed_out, base::FailureKind::timeout,
          "No end within 60 s");
  for (const std::string op : {"add",
                               "sub",
                               "mul",
                               "div",
                               "matmul",
                               "addmm",
                               "exp",
                               "log",
                               "sum",
                               "mean",
                               "argmax",
                               "sort",
                               "topk",
                               "gather",
                               "scatter",
                               "where",
                               "cat",
                               "stack",
                               "nn.functional.relu",
                               "nn.functional.gelu",
                               "nn.functional.layer_norm"}) {
    for (const std::string dtype : {"float32", "float16", "bfloat16", "int64", "complex64"}) {
      const bool skip = dtype == "complex64" && (op == "argmax" || op == "sort" || op == "topk");
      tests.push_back(Seed::test(
          "test_forward", op, dtype, skip ? base::Outcome::skipped : base::Outcome::passed,
          base::FailureKind::none, skip ? "Skipped: complex numbers have no order" : ""));
      if (dtype == "float32")
        tests.push_back(Seed::test("test_backward", op, dtype,
                                   op == "sort" ? base::Outcome::xfailed : base::Outcome::passed));
    }
  }
  // Flaky: it passes in the second attempt.
  tests.push_back(Seed::test("test_forward", "dropout", "float32", base::Outcome::failed,
                             base::FailureKind::assertion, "AssertionError: not yet"));
  tests.push_back(Seed::test("test_forward", "dropout", "float32", base::Outcome::passed));
  tests.back().attempt = 2;
  seeded.failed_run = Seed::run_of("run-7f3a", tests);
  const std::string digest(64, 'a');
  seed.run(seeded.failed_run, digest, "acme/refdev");
  std::vector<base::TestResult> good;
  for (const auto& test : tests) {
    if (!base::is_failure(test.outcome)) good.push_back(test);
  }
  const std::string good_digest(64, 'b');
  seed.run(Seed::run_of("run-7f39", good), good_digest, "acme/refdev");

  int run_id = 17'750'210;
  for (std::size_t day = 0; day < 40; ++day) {
    const auto& [pr, title] = changes[day % changes.size()];
    const auto at = k_now - 3h * static_cast<int>(40 - day) - 11min;
    const int revision = static_cast<int>(day / changes.size());
    SeedDelivery delivery;
    delivery.delivery_id =
        fmt::format("{:08x}-5b1e-11f1-9c44-7b6c2d0e{:04x}", 0x3f00a100U + day, day);
    delivery.action = revision == 0 ? "opened" : "synchronize";
    delivery.pr_number = pr;
    delivery.title = title;
    delivery.head_sha = sha_of(pr, revision);
    delivery.head_ref = fmt::format("gh/dev/{}/head", pr - 171000);
    delivery.sender = day % 3 == 0 ? "albanD" : day % 3 == 1 ? "jansel" : "ezyang";
    delivery.at = at;
    const auto id = seed.delivery(delivery);
    const bool newest = day == 39;
    for (const auto& [repo, level, device] : {std::tuple{"acme/refdev", "L4", "refdev"},
                                              {"Ascend/pytorch-npu", "L3", "npu"},
                                              {"intel/torch-xpu-ops", "L2", "xpu"}}) {
      const bool dead = day == 35 && std::string{repo} == "intel/torch-xpu-ops";
      const bool pending = newest && std::string{repo} == "intel/torch-xpu-ops";
      seed.dispatch(id, repo, level,
                    dead      ? "dead"
                    : pending ? "pending"
                              : "sent",
                    at,
                    dead ? "POST /repos/intel/torch-xpu-ops/dispatches answered 404: is the App "
                           "installed there?"
                         : "",
                    device);
      if (dead || pending) continue;
      SeedJob job;
      job.delivery = id;
      job.delivery_id = delivery.delivery_id;
      job.repo = repo;
      job.level = level;
      job.device = device;
      job.head_sha = delivery.head_sha;
      job.pr_number = pr;
      job.run_id = std::to_string(++run_id);
      job.url = fmt::format("https://github.com/{}/actions/runs/{}", repo, job.run_id);
      job.at = at + 95s;
      job.queue = 40s + std::chrono::seconds{(day * 37) % 190};
      job.execution = 8min + std::chrono::seconds{(day * 71) % 600};
      const bool refdev = std::string{repo} == "acme/refdev";
      const bool fails = refdev ? day >= 37 : (day * (std::string{repo}.size())) % 13 == 5;
      const std::vector<std::string> names =
          refdev ? std::vector<std::string>{"build", "test (quick)", "test (distributed, 1, 2)",
                                            "test (distributed, 2, 2)"}
                 : std::vector<std::string>{"build", "linux-x86_64 / pytorch / test"};
      for (const auto& name : names) {
        job.name = name;
        job.attempt = 1;
        job.conclusion = "success";
        job.passed = name == "build" ? std::optional<std::int64_t>{} : 122;
        job.failed = name == "build" ? std::optional<std::int64_t>{} : 0;
        job.skipped = name == "build" ? std::optional<std::int64_t>{} : 3;
        job.digest.reset();
        const bool is_test = name == names[1];
        if (is_test && fails) {
          job.conclusion = "failure";
          job.failed = 5;
        }
        if (name == "build" && day % 9 == 4) job.conclusion = "skipped";
        if (!refdev && is_test && day % 11 == 3) job.conclusion = "cancelled";
        if (!refdev && newest && is_test) {
          job.conclusion.reset();
          job.passed = job.failed = job.skipped = std::nullopt;
        }
        if (refdev && is_test) job.digest = fails ? digest : good_digest;
        if (refdev && is_test && day % 7 == 2) {
          auto first = job;
          first.conclusion = "failure";
          first.digest.reset();
          seed.job(first);
          job.attempt = 2;
          job.queue.reset();
          job.at += 14min;
        }
        const auto job_id = seed.job(job);
        if (refdev && newest && is_test) seeded.failed_job = job_id;
        if (refdev && newest && name == "build") seeded.passed_job = job_id;
      }
    }
    seed.dispatch(id, "watcher/only", "L1", "sent", at, "", "hpu");
    seeded.pr = pr;
    seeded.head_sha = delivery.head_sha;
  }
  SeedJob nightly;
  nightly.event_type = "nightly";
  nightly.delivery_id = sha_of(42, 1);
  nightly.head_sha = sha_of(42, 1);
  nightly.repo = "quiet/backend";
  nightly.name = "nightly";
  nightly.workflow = "Nightly";
  nightly.conclusion = "success";
  nightly.queue.reset();
  nightly.at = k_now - 24h * 6;
  seed.job(nightly);
  return seeded;
}

}  // namespace crosscheck::hud::test
