#include "crosscheck/relay/results.h"

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

Result<Stored> store_results(store::Store& store, const base::RepoName& repo,
                             std::string_view digest, std::string_view gzipped, base::Time now,
                             std::size_t unpacked_limit) {
  if (gzipped.size() > k_results_limit)
    return base::fail(Fault::too_large, "body: larger than 32 MiB",
                      "split the run, or leave details out");
  if (base::sha256_hex(gzipped) != digest)
    return base::fail(Fault::invalid_input, "body: its SHA-256 is not the one in the address",
                      "send the file again; the digest is of the gzipped bytes");
  const auto known = [&](store::Tx& tx) -> Result<bool> {
    auto rows = tx.query("SELECT 1 FROM result_files WHERE digest = $1", {digest});
    if (!rows) return tl::unexpected(rows.error());
    return !rows->empty();
  };
  // Unpacking is the expensive part: a repeat costs none of it.
  const auto before = store.read_value(known);
  if (!before) return tl::unexpected(before.error());
  if (*before) return Stored::duplicate;
  const auto text = base::gunzip(gzipped, unpacked_limit);
  if (!text)
    return base::fail(text.error().fault, "body: " + text.error().message, text.error().remedy);
  const auto run = base::parse_run_results(*text);
  if (!run)
    return base::fail(run.error().fault, "body: " + run.error().message, run.error().remedy);
  return store.write_value([&](store::Tx& tx) -> Result<Stored> {
    auto added = tx.execute(
        "INSERT INTO result_files (digest, repo_key, size, bytes, received_at) "
        "VALUES ($1, $2, $3, $4, $5) ON CONFLICT (digest) DO NOTHING",
        {digest, repo.key(), static_cast<std::int64_t>(gzipped.size()), store::to_bytes(gzipped),
         now});
    if (!added) return tl::unexpected(added.error());
    if (*added == 0) return Stored::duplicate;
    auto imported = store::import_run(tx, *run, digest);
    if (!imported) return tl::unexpected(imported.error());
    return Stored::added;
  });
}

net::Response ResultsHandler::handle(const net::Request& request, std::string_view digest) {
  constexpr std::string_view refused = "results.refused";
  const auto identity = identify(request, verify_);
  if (!identity) return refuse(identity.error(), refused);
  const base::Time now = clock_.now();
  const auto allowlist = allowlist_.current();
  const auto reporter = admit(identity->repo, *allowlist, limiter_, now);
  if (!reporter) return reporter.error();
  if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return refuse({Fault::invalid_input, "address: expected a SHA-256 in 64 lower-case hex digits"},
                  refused);
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
