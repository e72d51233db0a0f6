#include "crosscheck/relay/results.h"

#include <algorithm>
#include <span>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/gzip.h"
#include "crosscheck/base/log.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/relay/answer.h"
#include "crosscheck/relay/callback.h"
#include "crosscheck/store/run_store.h"

namespace crosscheck::relay {

using base::Fault;
using base::Result;

namespace {

// Results a transaction: some tens of milliseconds.
constexpr std::size_t k_chunk = 1024;

Result<bool> is_stored(store::Store& store, const base::RepoName& repo, std::string_view digest) {
  return store.read_value([&](store::Tx& tx) -> Result<bool> {
    auto rows = tx.query("SELECT 1 FROM result_files WHERE repo_key = $1 AND digest = $2",
                         {repo.key(), digest});
    if (!rows) return tl::unexpected(rows.error());
    return !rows->empty();
  });
}

Result<base::RunResults> unpack(std::string_view gzipped, std::size_t unpacked_limit) {
  const auto in_body = [](const base::Error& error) {
    return base::fail(error.fault, "body: " + error.message, error.remedy);
  };
  const auto text = base::gunzip(gzipped, unpacked_limit);
  if (!text) return in_body(text.error());
  // Beside the results a file has a first and a last line.
  if (std::ranges::count(*text, '\n') >
      static_cast<std::ptrdiff_t>(base::k_results_count_limit + 2))
    return base::fail(Fault::too_large,
                      "body: more than " + std::to_string(base::k_results_count_limit) + " results",
                      "split the run");
  auto run = base::parse_run_results(*text);
  if (!run) return in_body(run.error());
  return run;
}

}  // namespace

Result<Stored> store_results(store::Store& store, const base::RepoName& repo,
                             std::string_view digest, std::string_view gzipped, base::Time now,
                             std::size_t unpacked_limit) {
  if (gzipped.size() > base::k_results_file_limit)
    return base::fail(Fault::too_large, "body: larger than 32 MiB",
                      "split the run, or leave details out");
  if (base::sha256_hex(gzipped) != digest)
    return base::fail(Fault::invalid_input, "body: its SHA-256 is not the one in the address",
                      "send the file again; the digest is of the gzipped bytes");
  // Unpacking is the expensive part: a repeat costs none of it.
  const auto before = is_stored(store, repo, digest);
  if (!before) return tl::unexpected(before.error());
  if (*before) return Stored::duplicate;
  const auto run = unpack(gzipped, unpacked_limit);
  if (!run) return tl::unexpected(run.error());

  const auto import = store.write_value(
      [&](store::Tx& tx) { return store::begin_import(tx, run->header, {repo.key(), digest}); });
  if (!import) return tl::unexpected(import.error());
  std::span<const base::TestResult> rest{run->results};
  while (!import->complete && !rest.empty()) {
    const auto chunk = rest.first(std::min(k_chunk, rest.size()));
    if (auto added =
            store.write([&](store::Tx& tx) { return store::add_results(tx, import->run, chunk); });
        !added)
      return tl::unexpected(added.error());
    rest = rest.subspan(chunk.size());
  }
  return store.write_value([&](store::Tx& tx) -> Result<Stored> {
    auto added = tx.execute(
        "INSERT INTO result_files (repo_key, digest, size, bytes, received_at) "
        "VALUES ($1, $2, $3, $4, $5) ON CONFLICT (repo_key, digest) DO NOTHING",
        {repo.key(), digest, static_cast<std::int64_t>(gzipped.size()), store::to_bytes(gzipped),
         now});
    if (!added) return tl::unexpected(added.error());
    if (*added == 0) return Stored::duplicate;
    if (auto ended = store::finish_run(tx, import->run, run->header); !ended)
      return tl::unexpected(ended.error());
    return Stored::added;
  });
}

ImportGate::Pass ImportGate::enter() {
  std::unique_lock lock{mutex_};
  if (taken_) {
    if (waiting_ >= k_most_waiting) return Pass{nullptr};
    ++waiting_;
    const bool came = free_.wait_for(lock, longest_wait_, [this] { return !taken_; });
    --waiting_;
    if (!came) return Pass{nullptr};
  }
  taken_ = true;
  return Pass{this};
}

int ImportGate::waiting() {
  const std::lock_guard lock{mutex_};
  return waiting_;
}

ImportGate::Pass::~Pass() {
  if (gate_ == nullptr) return;
  const std::lock_guard lock{gate_->mutex_};
  gate_->taken_ = false;
  gate_->free_.notify_one();
}

net::Response ResultsHandler::handle(const net::Request& request, std::string_view digest) {
  constexpr std::string_view refused = "results.refused";
  const auto identity = identify(request, verify_);
  if (!identity) return refuse(identity.error(), refused);
  const base::Time now = clock_.now();
  const auto allowlist = allowlist_.current();
  const auto reporter = admit(identity->repo, *allowlist, limiter_, now);
  if (!reporter) return reporter.error();
  if (!base::is_sha256_hex(digest))
    return refuse({Fault::invalid_input, "address: expected a SHA-256 in 64 lower-case hex digits"},
                  refused);
  const auto known = is_stored(store_, reporter->repo, digest);
  if (!known) return refuse(known.error(), refused);
  const auto pass = *known ? ImportGate::Pass{nullptr} : gate_.enter();
  if (!*known && !pass) return refuse({Fault::busy, "other results are being read"}, refused);
  const auto stored = store_results(store_, reporter->repo, digest, request.body, now);
  if (!stored) return refuse(stored.error(), refused);
  base::log::info("results", {{"repo", reporter->repo.full_name()},
                              {"digest", digest},
                              {"bytes", request.body.size()},
                              {"duplicate", *stored == Stored::duplicate}});
  base::json::object answer{{"ok", true}, {"digest", digest}};
  if (*stored == Stored::duplicate) answer["duplicate"] = true;
  return answer_json(*stored == Stored::duplicate ? 200 : 201, answer);
}

}  // namespace crosscheck::relay
