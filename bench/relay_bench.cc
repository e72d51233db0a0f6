// The relay's figures: the real program against a double of GitHub, with fsync on, on this machine.
// scripts/bench builds and runs it.
#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/process.h"
#include "crosscheck/base/time.h"
#include "crosscheck/github/jwt.h"
#include "crosscheck/github/webhook.h"
#include "figures.h"
#include "github_double.h"
#include "load.h"

namespace crosscheck::bench {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;
using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int k_repositories = 20;
constexpr std::size_t k_body_bytes = 24 * 1024;
constexpr std::string_view k_secret = "the bench's webhook secret";
constexpr std::string_view k_audience = "pytorch-cross-repo-ci-relay";

struct Options {
  std::string program;
  std::string examples;          // the JSON file of @octokit/webhooks-examples
  std::string postgresql;        // a server's URL; empty: those figures are left out
  std::string out;               // where the JSON goes
  std::string folder = "build";  // on the disk that is measured
  double scale = 1.0;            // of the number of requests
  bool check = false;
};

microseconds cpu_of(pid_t pid) {
  const std::string text = need(base::read_file(fmt::format("/proc/{}/stat", pid)));
  // After the name, which may hold anything: state is field 3, utime 14 and stime 15.
  const char* at = text.c_str() + text.rfind(')') + 1;
  long long ticks = 0;
  for (int field = 3; field <= 15; ++field) {
    while (*at == ' ') ++at;
    if (field >= 14) ticks += std::strtoll(at, nullptr, 10);
    while (*at != ' ' && *at != '\0') ++at;
  }
  return microseconds{ticks * 1'000'000 / ::sysconf(_SC_CLK_TCK)};
}

// A pull request's event as GitHub sends them, filled up to `bytes` with a longer description.
class Payloads {
 public:
  explicit Payloads(const std::string& file) {
    const auto all = need(base::parse_json(need(base::read_file(file)), file));
    for (const json::value& entry : all.as_array()) {
      if (entry.at("name") != "pull_request") continue;
      for (const json::value& example : entry.at("examples").as_array()) {
        // The shortest one, to be filled up.
        if (example.at("action") == "opened" &&
            (payload_.is_null() ||
             json::serialize(example).size() < json::serialize(payload_).size())) {
          payload_ = example;
        }
      }
    }
    if (payload_.is_null()) give_up(file + ": no pull request that was opened");
    payload_.at("repository").at("full_name") = "pytorch/pytorch";
  }

  json::value make(int number, std::size_t bytes) {
    payload_.at("number") = number;
    json::value& pr = payload_.at("pull_request");
    pr.at("number") = number;
    pr.at("body") = "";
    const std::size_t size = json::serialize(payload_).size();
    if (size > bytes) give_up("the example is longer than the body that is wanted");
    std::string text;
    while (text.size() < bytes - size) text += "Makes the kernel twice as fast for small inputs. ";
    text.resize(bytes - size);
    pr.at("body") = text;
    return payload_;
  }

 private:
  json::value payload_;
};

std::string repository(int n) { return fmt::format("org-{}/backend", n); }

std::string post(std::string_view path, std::string_view headers, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: relay\r\nContent-Type: application/json\r\n{}"
      "Content-Length: {}\r\n\r\n{}",
      path, headers, body.size(), body);
}

std::string webhook(const std::string& delivery_id, const std::string& body) {
  return post("/github/webhook",
              fmt::format("X-GitHub-Event: pull_request\r\nX-GitHub-Delivery: {}\r\n"
                          "X-Hub-Signature-256: {}\r\n",
                          delivery_id, github::sign_body(k_secret, body)),
              body);
}

// As spread as GitHub's, and the same for the same `name`.
std::string delivery_id(const std::string& name) {
  const std::string hex = base::sha256_hex(name);
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20, 12));
}

std::vector<std::string> webhooks(Payloads& payloads, const std::string& prefix, int count) {
  std::vector<std::string> made;
  static int number = 0;
  for (int i = 0; i < count; ++i) {
    made.push_back(webhook(delivery_id(fmt::format("{}-{}", prefix, i)),
                           json::serialize(payloads.make(++number, k_body_bytes))));
  }
  return made;
}

// `in_progress` and, some hundred requests later, `completed` of `jobs` jobs, one job a dispatch of
// the deliveries `<prefix>-0`…, each with a token of its own.
std::vector<std::string> callbacks(Payloads& payloads, const github::SigningKey& key,
                                   const std::string& issuer, const std::string& prefix, int jobs) {
  constexpr std::size_t k_between = 200;
  const std::int64_t now = base::to_micros(base::SystemClock{}.now()) / 1'000'000;
  const json::value echo = payloads.make(1, k_body_bytes - 900);
  std::vector<std::string> started;
  std::vector<std::string> finished;
  for (int job = 0; job < jobs; ++job) {
    const std::string repo = repository(job % k_repositories);
    const std::string run_id = std::to_string(17'000'000'000 + job);
    const std::string token =
        github::sign_jwt(key, {{"iss", issuer},
                               {"aud", k_audience},
                               {"sub", "repo:" + repo + ":ref:refs/heads/main"},
                               {"repository", repo},
                               {"run_id", run_id},
                               {"run_attempt", "1"},
                               {"iat", now},
                               {"nbf", now},
                               {"exp", now + 3600}});
    for (const bool is_end : {false, true}) {
      json::value body{
          {"event_type", "pull_request"},
          {"delivery_id", delivery_id(fmt::format("{}-{}", prefix, job / k_repositories))},
          {"payload", echo},
          {"workflow",
           {{"schema_version", "1"},
            {"status", is_end ? "completed" : "in_progress"},
            {"conclusion", is_end ? json::value("success") : json::value()},
            {"name", "CI"},
            {"url", "https://github.com/" + repo + "/actions/runs/" + run_id},
            {"run_id", run_id},
            {"run_attempt", "1"},
            {"job_name", "linux-x86_64 / pytorch / test"},
            {"check_run_id", std::to_string(job + 1)},
            {"started_at", "2026-05-04T20:48:28Z"},
            {"completed_at", is_end ? json::value("2026-05-04T21:18:28Z") : json::value()}}}};
      if (is_end) {
        body.at("workflow").as_object()["test_results"] = {
            {"passed", 4200}, {"failed", 3}, {"skipped", 512}};
      }
      (is_end ? finished : started)
          .push_back(post("/github/callback", "Authorization: Bearer " + token + "\r\n",
                          json::serialize(body)));
    }
  }
  // Backends take their own time: the reports on one event are not neighbours.
  for (auto* list : {&started, &finished}) {
    std::ranges::shuffle(*list, std::mt19937_64{7});
  }
  std::vector<std::string> mixed;
  for (std::size_t i = 0; i < started.size() + std::min(k_between, finished.size()); ++i) {
    if (i < started.size()) mixed.push_back(std::move(started[i]));
    if (i >= k_between) mixed.push_back(std::move(finished[i - k_between]));
  }
  return mixed;
}

// The real program, in a folder of its own.
class RelayProcess {
 public:
  RelayProcess(const Options& options, const fs::path& folder, const std::string& db) {
    auto pipe = need(base::make_pipe());
    const base::Fd log{
        ::open((folder / "relay.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
    began_ = Steady::now();
    process_.emplace(need(base::Process::spawn(
        {.arguments = {options.program, "serve", "--json", "--listen", "127.0.0.1:0", "--db", db,
                       "--settings", (folder / "settings.yaml").string()},
         .directory = folder.string(),
         .environment = {{"GITHUB_APP_SECRET", std::string{k_secret}}},
         .descriptors = {{pipe.write.get(), 1}, {log.get(), 2}},
         .die_with_parent = true})));
    pipe.write.reset();
    std::string line;
    for (char c = 0; ::read(pipe.read.get(), &c, 1) == 1 && c != '\n';) line += c;
    const auto started = base::parse_json(line, "the program's first line");
    if (!started)
      give_up("the relay did not start:\n" + base::read_file(folder / "relay.log").value_or(""));
    const std::string url = need(base::require_string(*started, "url"));
    port_ = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
    const std::string ready = "GET /readyz HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n";
    while (status_of(port_, ready) != 200) {
      if (Steady::now() - began_ > 30s) give_up("the relay does not become ready");
      std::this_thread::sleep_for(1ms);
    }
    took_ = std::chrono::duration_cast<microseconds>(Steady::now() - began_);
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return process_->pid(); }
  [[nodiscard]] microseconds start_time() const { return took_; }
  // As in a crash: the next one finds what this one left.
  void kill() {
    process_->signal(SIGKILL);
    static_cast<void>(process_->wait());
  }
  void stop() { static_cast<void>(process_->stop(20s)); }

 private:
  std::optional<base::Process> process_;
  std::uint16_t port_ = 0;
  Steady::time_point began_;
  microseconds took_{};
};

void must_be(int status, const Load& load, std::string_view what) {
  if (load.statuses.size() == 1 && load.statuses.contains(status)) return;
  std::string seen;
  for (const auto& [code, count] : load.statuses) seen += fmt::format(" {}×{}", count, code);
  give_up(fmt::format("{}: not all were answered {}:{}\n{}", what, status, seen, load.odd_answer));
}

double ms(microseconds time) { return static_cast<double>(time.count()) / 1000; }

double percentile_ms(std::vector<microseconds> samples, double share) {
  Load load;
  load.latencies = std::move(samples);
  return ms(load.percentile(share));
}

// What a commit waits for at least: 4 KiB written and synced beside the database.
std::vector<microseconds> measure_fsync(const fs::path& folder) {
  const base::Fd fd{::open((folder / "sync").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  const std::string block(4096, 'x');
  std::vector<microseconds> samples;
  for (int i = 0; i < 200; ++i) {
    const auto began = Steady::now();
    if (::pwrite(fd.get(), block.data(), block.size(), i * 4096) < 0 ||
        ::fdatasync(fd.get()) != 0) {
      give_up("the disk cannot be written");
    }
    samples.push_back(std::chrono::duration_cast<microseconds>(Steady::now() - began));
  }
  return samples;
}

class Bench {
 public:
  explicit Bench(Options options) : options_{std::move(options)}, payloads_{options_.examples} {
    std::string name = (fs::absolute(options_.folder) / "bench.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) give_up("no folder can be made in " + options_.folder);
    folder_ = name;
    std::string allowlist = "L2:\n";
    for (int i = 0; i < k_repositories; ++i) allowlist += "  - " + repository(i) + "\n";
    write("allowlist.yaml", allowlist);
    write("app.pem", github::SigningKey::generate().to_pem());
    write("settings.yaml",
          fmt::format("upstream_repo: pytorch/pytorch\nallowlist: {0}/allowlist.yaml\n"
                      "state_dir: {0}/state\ngithub_api_url: {1}\ngithub_app_id: \"4711\"\n"
                      "github_app_private_key_file: {0}/app.pem\nrate_limit_per_min: 1000000\n"
                      "oidc_issuers:\n  - {{issuer: {1}, keys: {1}/jwks}}\n",
                      folder_.string(), github_.url()));
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  int run() {
    const auto synced = measure_fsync(folder_);
    add({.name = "fsync of 4 KiB on this disk, p50",
         .unit = "ms",
         .ours = percentile_ms(synced, 0.5)});
    add({.name = "fsync of 4 KiB on this disk, p95",
         .unit = "ms",
         .ours = percentile_ms(synced, 0.95)});
    start();
    {
      RelayProcess relay{options_, folder_, sqlite()};
      idle(relay);
      loaded(relay);
      reports(relay, "SQLite", 3000);
      add({.name = "memory under load, peak",
           .unit = "MB",
           .ours = proc_mb(std::to_string(relay.pid()), "VmHWM:"),
           .wanted = 60,
           .theirs = ""});
      relay.stop();
    }
    spread();
    if (!options_.postgresql.empty()) postgresql();
    figures_.print();
    if (!options_.out.empty())
      figures_.save(options_.out, {{"repositories", k_repositories},
                                   {"body_bytes", static_cast<std::int64_t>(k_body_bytes)}});
    return options_.check && !figures_.hold() ? 1 : 0;
  }

 private:
  void write(const std::string& name, const std::string& text) {
    need(base::write_file_atomically(folder_ / name, text, 0600));
  }
  [[nodiscard]] std::string sqlite() const { return (folder_ / "relay.db").string(); }
  [[nodiscard]] int scaled(int count) const {
    return std::max(k_repositories, static_cast<int>(count * options_.scale));
  }
  void add(Figure figure) { figures_.add(std::move(figure)); }

  void start() {
    std::vector<microseconds> took;
    double memory = 0;
    for (int i = 0; i < 10; ++i) {
      RelayProcess relay{options_, folder_, sqlite()};
      took.push_back(relay.start_time());
      if (i == 9) {
        std::this_thread::sleep_for(1s);
        memory = proc_mb(std::to_string(relay.pid()), "VmRSS:");
      }
      relay.stop();
    }
    add({.name = "start until ready, p50",
         .unit = "s",
         .ours = percentile_ms(took, 0.5) / 1000,
         .wanted = 0.2,
         .theirs = "1.3"});
    add({.name = "memory idle", .unit = "MB", .ours = memory, .wanted = 15, .theirs = "72"});
  }

  // One webhook at a time, and nothing else.
  void idle(RelayProcess& relay) {
    std::vector<microseconds> latencies;
    const int count = scaled(100);
    const auto requests = webhooks(payloads_, "idle", count);
    for (int i = 0; i < count; ++i) {
      const Load load = send_all(relay.port(), {requests[static_cast<std::size_t>(i)]}, 1);
      must_be(202, load, "webhooks");
      latencies.push_back(load.latencies.front());
      arrive(delivery_id(fmt::format("idle-{}", i)));
      // The answers are recorded, and the relay is at rest.
      std::this_thread::sleep_for(30ms);
    }
    add({.name = "webhook accepted and durable, idle, p50",
         .unit = "ms",
         .ours = percentile_ms(latencies, 0.5),
         .wanted = 2,
         .theirs = "1100"});
    add({.name = "webhook accepted and durable, idle, p95",
         .unit = "ms",
         .ours = percentile_ms(latencies, 0.95),
         .wanted = 6});
  }

  // Eight at a time, as fast as they are taken, while their dispatches leave.
  void loaded(RelayProcess& relay) {
    const int count = scaled(1000);
    const auto requests = webhooks(payloads_, "load", count);
    const auto before = github_.total();
    const auto cpu = cpu_of(relay.pid());
    const auto theirs = github_.cpu();
    const auto began = Steady::now();
    const Load load = send_all(relay.port(), requests, 8);
    must_be(202, load, "webhooks");
    if (!github_.wait_for_total(before + std::int64_t{count} * k_repositories, 120s)) {
      give_up("not every dispatch was sent");
    }
    const double took_s =
        ms(std::chrono::duration_cast<microseconds>(Steady::now() - began)) / 1000;
    // What is recorded after the last answer belongs to it.
    std::this_thread::sleep_for(500ms);
    const double cpu_ms = ms(cpu_of(relay.pid()) - cpu) / count;
    add({.name = "webhook accepted while dispatching, 8 at once, p95",
         .unit = "ms",
         .ours = ms(load.percentile(0.95)),
         .wanted = 20});
    add({.name = "webhooks accepted", .unit = "1/s", .ours = load.per_second()});
    add({.name = "webhooks with all their dispatches sent",
         .unit = "1/s",
         .ours = count / took_s,
         .wanted = 200,
         .at_least = true,
         .theirs = "0.8"});
    add({.name = "CPU for a webhook with its 20 dispatches",
         .unit = "ms",
         .ours = cpu_ms,
         .wanted = 1700.0 / 250,
         .theirs = "1600 to 1800"});
    add({.name = "CPU of their relay over ours",
         .unit = "×",
         .ours = 1700 / cpu_ms,
         .wanted = 250,
         .at_least = true});
    add({.name = "CPU of the double for a webhook's 20 dispatches",
         .unit = "ms",
         .ours = ms(github_.cpu() - theirs) / count});
  }

  // Callbacks to the deliveries of `loaded`.
  void reports(RelayProcess& relay, const std::string& engine, double wanted) {
    const auto requests = callbacks(payloads_, issuer_key_, github_.url(), "load", scaled(4000));
    const auto cpu = cpu_of(relay.pid());
    const Load load = send_all(relay.port(), requests, 32);
    must_be(200, load, "callbacks");
    add({.name = "callbacks, verified and durable, " + engine,
         .unit = "1/s",
         .ours = load.per_second(),
         .wanted = wanted,
         .at_least = true,
         .theirs = "100 (L2), 1.8 (L4)"});
    add({.name = "callbacks on " + engine + ", 32 at once, p95",
         .unit = "ms",
         .ours = ms(load.percentile(0.95))});
    add({.name = "CPU for a callback, " + engine,
         .unit = "ms",
         .ours = ms(cpu_of(relay.pid()) - cpu) / static_cast<double>(requests.size())});
  }

  // From an event's arrival to the last of its dispatches' at GitHub, which needs 50 ms a call.
  void spread() {
    github_.set_delay(50ms);
    const auto one = [this](RelayProcess& relay, const std::string& prefix) {
      const auto requests = webhooks(payloads_, prefix, 1);
      const auto began = Steady::now();
      must_be(202, send_all(relay.port(), requests, 1), "webhooks");
      const std::string id = delivery_id(prefix + "-0");
      arrive(id);
      // The double counts a dispatch when it arrives; its answer takes 50 ms more.
      return std::chrono::duration_cast<microseconds>(github_.seen(id).last - began) + 50ms;
    };
    std::vector<microseconds> warm;
    std::vector<microseconds> cold;
    {
      RelayProcess relay{options_, folder_, sqlite()};
      static_cast<void>(one(relay, "first"));
      for (int i = 0; i < 40; ++i) {
        // The relay is at rest again before the next.
        std::this_thread::sleep_for(100ms);
        warm.push_back(one(relay, fmt::format("warm{}", i)));
      }
      relay.stop();
    }
    for (int i = 0; i < 20; ++i) {
      RelayProcess relay{options_, folder_, sqlite()};
      cold.push_back(one(relay, fmt::format("cold{}", i)));
      std::this_thread::sleep_for(100ms);
      relay.stop();
    }
    github_.set_delay(0ms);
    add({.name = "event to last of 20 dispatches answered, warm, p95",
         .unit = "ms",
         .ours = percentile_ms(warm, 0.95),
         .wanted = 150});
    add({.name = "event to last of 20 dispatches answered, cold, p95",
         .unit = "ms",
         .ours = percentile_ms(cold, 0.95),
         .wanted = 250});
  }

  void postgresql() {
    RelayProcess relay{options_, folder_, options_.postgresql};
    const int count = scaled(1000) / 4;
    const auto before = github_.total();
    const auto began = Steady::now();
    const Load load = send_all(relay.port(), webhooks(payloads_, "load", count), 8);
    must_be(202, load, "webhooks");
    if (!github_.wait_for_total(before + std::int64_t{count} * k_repositories, 120s)) {
      give_up("not every dispatch was sent");
    }
    const double took_s =
        ms(std::chrono::duration_cast<microseconds>(Steady::now() - began)) / 1000;
    std::this_thread::sleep_for(500ms);
    add({.name = "webhooks with all their dispatches sent, PostgreSQL",
         .unit = "1/s",
         .ours = count / took_s});
    reports(relay, "PostgreSQL", 2000);
    relay.stop();
  }

  void arrive(const std::string& delivery) {
    if (!github_.wait_for(delivery, k_repositories, 30s)) {
      give_up(fmt::format("{} of 20 dispatches of {} were sent", github_.seen(delivery).dispatches,
                          delivery));
    }
  }

  const Options options_;
  Payloads payloads_;
  const github::SigningKey issuer_key_ = github::SigningKey::generate();
  GithubDouble github_{json::serialize(json::object{{"keys", {issuer_key_.public_jwk()}}})};
  fs::path folder_;
  Figures figures_;
};

}  // namespace
}  // namespace crosscheck::bench

int main(int argc, char** argv) {
  crosscheck::bench::Options options;
  CLI::App app{"Measures the relay; scripts/bench runs it"};
  app.add_option("--program", options.program, "The crosscheck to measure")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--examples", options.examples, "index.json of @octokit/webhooks-examples")
      ->required();
  app.add_option("--postgresql", options.postgresql, "The URL of an empty database");
  app.add_option("--out", options.out, "Where the figures go, as JSON");
  app.add_option("--folder", options.folder, "Where the database lies: on the disk to be measured");
  app.add_option("--scale", options.scale, "Of the number of requests; 1 is what is published");
  app.add_flag("--check", options.check, "Exit with 1 when a figure is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    // It is started in a folder of its own.
    options.program = std::filesystem::absolute(options.program).string();
    return crosscheck::bench::Bench{std::move(options)}.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 4;
  }
}
