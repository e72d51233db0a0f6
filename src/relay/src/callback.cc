#include "crosscheck/relay/callback.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/log.h"
#include "crosscheck/base/url.h"
#include "crosscheck/relay/advisory.h"
#include "crosscheck/relay/answer.h"

namespace crosscheck::relay {
namespace {

using base::Fault;
using base::Result;
using base::Time;
namespace json = base::json;
namespace log = base::log;

constexpr std::size_t k_name_limit = 1024;
constexpr std::size_t k_id_limit = 256;
constexpr std::int64_t k_max_attempt = 1'000'000;
constexpr std::size_t k_most_for_log = 256 * 1024;  // of a body that is read for the log alone

tl::unexpected<base::Error> wrong_field(std::string_view field, std::string what,
                                        std::string remedy = {}) {
  return base::fail(Fault::invalid_input, "field " + std::string{field} + ": " + std::move(what),
                    std::move(remedy));
}

std::string delivery_of(const json::value& body) {
  return base::to_utf8(base::require_string(body, "delivery_id").value_or(""), k_id_limit);
}

Result<std::string> checked(std::string_view field, const std::string& text, std::size_t limit) {
  if (text.empty()) return wrong_field(field, "must not be empty");
  if (text.size() > limit)
    return wrong_field(field, "longer than " + std::to_string(limit) + " bytes");
  // A NUL would not be stored by every engine, other control characters would forge log lines.
  return base::to_utf8(text);
}

Result<std::int64_t> positive(std::string_view field, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1 ||
      number > k_max_attempt)
    return wrong_field(field,
                       "expected a whole number from 1, found '" + base::to_utf8(text, 40) + "'");
  return number;
}

// Advisory numbers: nothing when missing or malformed.
std::optional<std::int64_t> count_of(const json::value& body, std::string_view path) {
  const auto id = base::optional_id(body, path);
  if (!id || !*id) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars((*id)->data(), (*id)->data() + (*id)->size(), number);
  if (error != std::errc{} || end != (*id)->data() + (*id)->size() || number < 0)
    return std::nullopt;
  return number;
}

std::string word_of(const json::object& body) {
  json::object word;
  for (const auto& [key, value] : body)
    if (key != "payload") word[key] = value;
  auto& workflow = word["workflow"].as_object();
  for (const std::string_view name : {"url", "artifact_url"})
    if (const auto* url = workflow.if_contains(name);
        url != nullptr && !(url->is_string() && base::is_web_url(url->as_string())))
      workflow.erase(name);
  const auto keep = [&workflow](std::string_view name, auto&& settled) {
    if (settled)
      workflow[name] = std::move(*settled);
    else
      workflow.erase(name);
  };
  if (const auto* verdict = workflow.if_contains("triage_verdict"); verdict != nullptr)
    keep("triage_verdict", read_triage_verdict(*verdict));
  if (const auto* tests = workflow.if_contains("failed_tests_detail"); tests != nullptr)
    keep("failed_tests_detail", read_failed_tests(*tests));
  return json::serialize(word);
}

struct Key {
  std::string delivery_id;
  std::string repo_key;
  std::string run_id;
  std::int64_t run_attempt = 1;
  std::string job_name;
};

struct StoredJob {
  std::int64_t id = 0;
  Level level = Level::L1;  // when it was first reported
  Job job;
};

Result<std::optional<StoredJob>> find_job(store::Tx& tx, const Key& key) {
  auto rows = tx.query(
      "SELECT id, state, conclusion, concluded_by, completed_first, started_at, completed_at, "
      "queue_us, execution_us, level FROM jobs WHERE delivery_id = $1 AND repo_key = $2 AND run_id "
      "= $3 "
      "AND run_attempt = $4 AND job_name = $5",
      {key.delivery_id, key.repo_key, key.run_id, key.run_attempt, key.job_name});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  const auto& row = rows->front();
  const auto duration = [&](std::size_t column) -> std::optional<base::Duration> {
    if (const auto us = row.optional_integer(column)) return base::Duration{*us};
    return std::nullopt;
  };
  Job job;
  job.state = parse_job_state(row.text(1)).value_or(JobState::completed);
  job.conclusion = row.optional_text(2);
  job.concluded_by = parse_concluded_by(row.optional_text(3).value_or(""));
  job.completed_first = row.integer(4) != 0;
  job.started_at = row.optional_time(5);
  job.completed_at = row.optional_time(6);
  job.queue = duration(7);
  job.execution = duration(8);
  return StoredJob{row.integer(0), parse_level(row.text(9)).value_or(Level::L1), job};
}

std::optional<std::int64_t> micros(const std::optional<base::Duration>& duration) {
  if (!duration) return std::nullopt;
  return duration->count();
}

std::optional<std::string> by_name(const std::optional<ConcludedBy>& by) {
  if (!by) return std::nullopt;
  return std::string{to_string(*by)};
}

// What the relay itself knows of the event: from the delivery's record, never from the echo.
struct Origin {
  std::optional<std::int64_t> delivery = {};
  std::string event_type = {};
  std::optional<std::string> head_sha = {};
  std::optional<std::int64_t> pr_number = {};
  std::optional<Time> dispatched_at = {};
  CommitState commit = CommitState::verified;
};

Result<Origin> origin_of(store::Tx& tx, const Reporter& reporter, const CallbackBody& body,
                         const ReportTerms& terms, Time now) {
  if (body.is_periodic())
    return Origin{
        .event_type = body.event_type, .head_sha = body.delivery_id, .commit = terms.commit};
  auto rows = tx.query(
      "SELECT d.id, d.event_type, d.head_sha, d.pr_number, o.first_attempt_at FROM deliveries d "
      "JOIN dispatches o ON o.delivery = d.id WHERE d.delivery_id = $1 AND o.repo_key = $2 "
      "AND o.first_attempt_at IS NOT NULL",
      {body.delivery_id, reporter.repo.key()});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty())
    return wrong_field("delivery_id",
                       "no dispatch of '" + body.delivery_id + "' to " + reporter.repo.full_name() +
                           " is on record",
                       "send back client_payload.delivery_id as it came");
  const auto& row = rows->front();
  if (terms.window && now - row.time(4) > *terms.window)
    return wrong_field("delivery_id", "its dispatch to " + reporter.repo.full_name() +
                                          " is longer ago than reports are taken");
  return Origin{row.integer(0), row.text(1), row.optional_text(2), row.optional_integer(3),
                row.time(4)};
}

Result<std::int64_t> insert_job(store::Tx& tx, const Key& key, const Reporter& reporter,
                                const Origin& origin, const CallbackBody& body, const Job& job,
                                Time now) {
  return tx.execute(
      "INSERT INTO jobs (delivery, delivery_id, event_type, repo_key, repo, level, device, "
      "head_sha, "
      "pr_number, run_id, run_attempt, job_name, state, conclusion, concluded_by, completed_first, "
      "first_seen_at, started_at, completed_at, queue_us, execution_us, word_workflow, word_url, "
      "word_check_run_id, word_body, word_passed, word_failed, word_skipped, word_combination, "
      "results_digest, commit_verified) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, "
      "$13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, "
      "$31) "
      // Where another transaction has just committed the same key, this makes it a serialization
      // failure, which the store tries again, and no constraint's.
      "ON CONFLICT (delivery_id, repo_key, run_id, run_attempt, job_name) DO NOTHING",
      {origin.delivery,
       key.delivery_id,
       origin.event_type,
       key.repo_key,
       reporter.repo.full_name(),
       to_string(reporter.level),
       reporter.device.empty() ? std::nullopt : std::optional{reporter.device},
       origin.head_sha,
       origin.pr_number,
       key.run_id,
       key.run_attempt,
       key.job_name,
       to_string(job.state),
       job.conclusion,
       by_name(job.concluded_by),
       job.completed_first,
       now,
       job.started_at,
       job.completed_at,
       micros(job.queue),
       micros(job.execution),
       body.workflow,
       body.url,
       body.check_run_id,
       body.word,
       body.passed,
       body.failed,
       body.skipped,
       body.combination,
       body.results_digest,
       static_cast<std::int64_t>(origin.commit)});
}

// The workflow keeps the name that it began with: the job's check run has it in its own.
Result<std::int64_t> update_job(store::Tx& tx, std::int64_t id, const Job& job,
                                const CallbackBody& body) {
  return tx.execute(
      "UPDATE jobs SET state = $1, conclusion = $2, concluded_by = $3, completed_at = $4, "
      "execution_us = $5, word_url = COALESCE($6, word_url), "
      "word_check_run_id = COALESCE($7, word_check_run_id), word_body = $8, word_passed = $9, "
      "word_failed = $10, word_skipped = $11, "
      "word_combination = COALESCE($12, word_combination), "
      "results_digest = COALESCE($13, results_digest) "
      "WHERE id = $14",
      {to_string(job.state), job.conclusion, by_name(job.concluded_by), job.completed_at,
       micros(job.execution), body.url, body.check_run_id, body.word, body.passed, body.failed,
       body.skipped, body.combination, body.results_digest, id});
}

// Where a nightly report goes that contradicts what is stored under `key`: the later attempt that
// says the same, or the next free one.
Result<std::int64_t> attempt_for(store::Tx& tx, const Key& key,
                                 const std::optional<std::string>& conclusion) {
  auto rows = tx.query(
      "SELECT run_attempt, conclusion FROM jobs WHERE delivery_id = $1 AND repo_key = $2 AND "
      "run_id = $3 AND job_name = $4 AND run_attempt > $5 ORDER BY run_attempt",
      {key.delivery_id, key.repo_key, key.run_id, key.job_name, key.run_attempt});
  if (!rows) return tl::unexpected(rows.error());
  std::int64_t last = key.run_attempt;
  for (const auto& row : *rows) {
    last = row.integer(0);
    if (row.optional_text(1) == conclusion) return last;
  }
  return last + 1;
}

Result<void> show_reported(store::Tx& tx, const CheckOptions& checks, const Key& key,
                           const Reporter& reporter, const std::optional<std::string>& replaced,
                           Time now) {
  const auto found = find_job(tx, key);
  if (!found) return tl::unexpected(found.error());
  if (!*found) return {};
  auto shown = show_job(tx, checks, {(*found)->id, reporter.level, reporter.device, replaced}, now);
  if (!shown) return tl::unexpected(shown.error());
  return {};
}

net::Response ignored(std::string_view reason) {
  return answer_json(200, {{"ok", true}, {"status", "ignored"}, {"reason", reason}});
}

}  // namespace

Result<CallbackBody> parse_callback(const json::value& value) {
  const auto* object = value.if_object();
  if (object == nullptr) return base::fail(Fault::invalid_input, "body: expected an object");
  CallbackBody body;
  auto event_type = base::optional_string(value, "event_type");
  if (!event_type) return tl::unexpected(event_type.error());
  body.event_type = base::to_utf8(event_type->value_or(""), k_id_limit);

  auto delivery = base::require_string(value, "delivery_id");
  if (delivery) delivery = checked("delivery_id", *delivery, k_id_limit);
  if (!delivery) return tl::unexpected(delivery.error());
  body.delivery_id = std::move(*delivery);

  const auto* workflow = object->if_contains("workflow");
  if (workflow == nullptr) return wrong_field("workflow", "missing");
  if (!workflow->is_object()) return wrong_field("workflow", "expected an object");

  const auto status = base::require_string(value, "workflow.status");
  if (!status) return tl::unexpected(status.error());
  const auto state = parse_job_state(*status);
  if (!state)
    return wrong_field("workflow.status", "'" + base::to_utf8(*status, 40) + "' is unknown",
                       "send in_progress or completed");
  body.status = *state;

  auto run_id = base::require_id(value, "workflow.run_id");
  if (run_id) run_id = checked("workflow.run_id", *run_id, k_id_limit);
  if (!run_id) return tl::unexpected(run_id.error());
  body.run_id = std::move(*run_id);

  const auto attempt = base::optional_id(value, "workflow.run_attempt");
  if (!attempt) return tl::unexpected(attempt.error());
  if (*attempt && !(*attempt)->empty()) {
    const auto number = positive("workflow.run_attempt", **attempt);
    if (!number) return tl::unexpected(number.error());
    body.run_attempt = *number;
  }

  auto name = base::require_string(value, "workflow.name");
  if (name) name = checked("workflow.name", *name, k_name_limit);
  if (!name) return tl::unexpected(name.error());
  body.workflow = std::move(*name);

  auto job = base::optional_id(value, "workflow.job_name");
  if (!job) return tl::unexpected(job.error());
  if (*job && !(*job)->empty()) {
    auto text = checked("workflow.job_name", **job, k_name_limit);
    if (!text) return tl::unexpected(text.error());
    body.job_name = std::move(*text);
  } else {
    body.job_name = body.workflow;
  }

  const auto conclusion = base::optional_string(value, "workflow.conclusion");
  if (!conclusion) return tl::unexpected(conclusion.error());
  if (body.status == JobState::completed && *conclusion && !(*conclusion)->empty())
    body.conclusion = base::to_utf8(**conclusion, 64);

  const auto check_run = base::optional_id(value, "workflow.check_run_id");
  if (!check_run) return tl::unexpected(check_run.error());
  if (*check_run && !(*check_run)->empty())
    body.check_run_id = base::to_utf8(**check_run, k_id_limit);

  // From here on advisory: dropped when malformed.
  if (const auto* url = base::find(value, "workflow.url");
      url != nullptr && url->is_string() && base::is_web_url(url->as_string()))
    body.url = std::string{url->as_string()};
  body.passed = count_of(value, "workflow.test_results.passed");
  body.failed = count_of(value, "workflow.test_results.failed");
  body.skipped = count_of(value, "workflow.test_results.skipped");
  if (const auto* combination = base::find(value, "workflow.crosscheck.combination");
      combination != nullptr && combination->is_object())
    body.combination = base::canonical_json(*combination);
  if (const auto* digest = base::find(value, "workflow.crosscheck.results_digest");
      digest != nullptr && digest->is_string() && base::is_sha256_hex(digest->as_string()))
    body.results_digest = std::string{digest->as_string()};
  if (const auto* sha = base::find(value, "payload.head_sha"); sha != nullptr && sha->is_string())
    body.head_sha = std::string{sha->as_string()};

  if (body.is_periodic()) {
    if (body.status != JobState::completed)
      return wrong_field("workflow.status",
                         "a " + body.event_type + " report is sent once, completed");
    const bool hex =
        body.delivery_id.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    if (!hex || body.delivery_id.size() != 40)
      return wrong_field(
          "delivery_id",
          "of a " + body.event_type + " report must be the tested upstream commit (40 hex digits)");
    body.delivery_id = base::to_lower_ascii(body.delivery_id);
    if (body.head_sha && base::to_lower_ascii(*body.head_sha) != body.delivery_id)
      return wrong_field("payload.head_sha", "is not delivery_id");
  }
  body.word = word_of(*object);
  return body;
}

Result<Recorded> record_report(store::Store& store, const Reporter& reporter,
                               const CallbackBody& body, const ReportTerms& terms, Time now) {
  const Report report{
      body.status == JobState::completed ? ReportKind::finished : ReportKind::started,
      body.conclusion};
  return store.write_value([&](store::Tx& tx) -> Result<Recorded> {
    Key key{body.delivery_id, reporter.repo.key(), body.run_id, terms.run_attempt, body.job_name};
    const auto origin = origin_of(tx, reporter, body, terms, now);
    if (!origin) return tl::unexpected(origin.error());
    auto found = find_job(tx, key);
    if (!found) return tl::unexpected(found.error());
    const auto was = [&found] { return *found ? std::optional{(*found)->job} : std::nullopt; };
    const auto dispatched_at = terms.run_attempt == 1 ? origin->dispatched_at : std::nullopt;
    auto next = advance(was(), report, dispatched_at, now);
    if (!next && body.is_periodic()) {
      const auto attempt = attempt_for(tx, key, report.conclusion);
      if (!attempt) return tl::unexpected(attempt.error());
      key.run_attempt = *attempt;
      found = find_job(tx, key);
      if (!found) return tl::unexpected(found.error());
      next = advance(was(), report, dispatched_at, now);
    }
    if (!next)
      return base::fail(Fault::conflict,
                        "field workflow.conclusion: '" + body.conclusion.value_or("null") +
                            "' contradicts the earlier '" +
                            (*found)->job.conclusion.value_or("null") + "' of this job",
                        "a re-run must raise workflow.run_attempt");
    const bool changes = next->effect == Effect::advanced || next->effect == Effect::replaced;
    if (changes) {
      const auto changed = *found ? update_job(tx, (*found)->id, next->job, body)
                                  : insert_job(tx, key, reporter, *origin, body, next->job, now);
      if (!changed) return tl::unexpected(changed.error());
    } else if (body.status == JobState::completed && (body.results_digest || body.combination)) {
      // A repeat may bring the results that could not be uploaded the first time.
      auto filled = tx.execute(
          "UPDATE jobs SET results_digest = COALESCE(results_digest, $1), "
          "word_combination = COALESCE(word_combination, $2) WHERE id = $3",
          {body.results_digest, body.combination, (*found)->id});
      if (!filled) return tl::unexpected(filled.error());
    }
    Recorded recorded{next->effect, next->job, key.run_attempt};
    if (next->effect == Effect::replaced) recorded.replaced = (*found)->job.conclusion;
    if (changes && terms.forward) {
      const auto job = find_job(tx, key);
      if (!job) return tl::unexpected(job.error());
      const Forwarded what{(*job)->id, reporter.repo, reporter.level, next->job,
                           body.status == JobState::completed};
      if (auto queued = forward_report(tx, what, *terms.forward, now); !queued)
        return tl::unexpected(queued.error());
    }
    // A job may have been at L3 when it began, and is shown as running then.
    const Level level = std::max(reporter.level, *found ? (*found)->level : Level::L1);
    if (terms.checks != nullptr && changes && origin->pr_number && level >= Level::L3)
      if (auto shown = show_reported(tx, *terms.checks, key, reporter, recorded.replaced, now);
          !shown)
        return tl::unexpected(shown.error());
    return recorded;
  });
}

Result<std::int64_t> conclude_run(store::Store& store, const base::RepoName& repo,
                                  std::string_view delivery_id, std::string_view run_id,
                                  std::string_view conclusion, Time now) {
  // Only local jobs are known to be over: they show nothing on a pull request.
  const Allowlist nobody;
  return store.write_value([&](store::Tx& tx) -> Result<std::int64_t> {
    auto open = tx.query(
        "SELECT id FROM jobs WHERE delivery_id = $1 AND repo_key = $2 AND run_id = $3 "
        "AND state = 'in_progress'",
        {delivery_id, repo.key(), run_id});
    if (!open) return tl::unexpected(open.error());
    for (const auto& row : *open)
      if (auto done = conclude_job(tx, row.integer(0), conclusion, {nobody}, now); !done)
        return tl::unexpected(done.error());
    return std::ssize(*open);
  });
}

Result<std::optional<std::string>> conclude_job(store::Tx& tx, std::int64_t id,
                                                std::string_view conclusion,
                                                const ConclusionTerms& terms, Time now) {
  auto rows = tx.query(
      "SELECT delivery_id, repo_key, run_id, run_attempt, job_name, repo FROM jobs WHERE id = $1 "
      "AND state = 'in_progress'",
      {id});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  const auto& row = rows->front();
  const Key key{row.text(0), row.text(1), row.text(2), row.integer(3), row.text(4)};
  const auto found = find_job(tx, key);
  if (!found) return tl::unexpected(found.error());
  const auto next =
      advance((*found)->job, {ReportKind::expired, std::string{conclusion}}, std::nullopt, now);
  const Job& job = next->job;
  auto changed = tx.execute(
      "UPDATE jobs SET state = $1, conclusion = $2, concluded_by = $3, completed_at = $4, "
      "execution_us = $5 WHERE id = $6",
      {to_string(job.state), job.conclusion, by_name(job.concluded_by), job.completed_at,
       micros(job.execution), id});
  if (!changed) return tl::unexpected(changed.error());
  const auto repo = base::RepoName::parse(row.text(5));
  if (!repo) return tl::unexpected(repo.error());
  const Backend* backend = terms.allowlist.find(*repo);
  JobReported reported{.job = id};
  if (backend != nullptr) {
    reported.level = backend->level;
    reported.device = backend->device;
  }
  if (terms.checks != nullptr)
    if (auto shown = show_job(tx, *terms.checks, reported, now); !shown)
      return tl::unexpected(shown.error());
  if (terms.forwards) {
    const Level level = backend != nullptr ? backend->level : (*found)->level;
    if (auto queued = forward_conclusion(tx, {id, *repo, level, job, true}, now); !queued)
      return tl::unexpected(queued.error());
  }
  return key.delivery_id;
}

tl::expected<Reporter, net::Response> admit(const base::RepoName& repo, const Allowlist& allowlist,
                                            RateLimiter& limiter, Time now) {
  const Backend* backend = allowlist.find(repo);
  if (backend == nullptr) return tl::unexpected(ignored("the repository is not on the allowlist"));
  if (backend->level == Level::L1)
    return tl::unexpected(ignored("results are kept from level L2 on"));
  if (const auto wait = limiter.admit(repo.key(), now)) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*wait).count();
    auto response = refuse(
        {Fault::rate_limited, "too many calls from " + repo.full_name() + " in the last minute",
         "try again in " + std::to_string(seconds) + " s"},
        "callback.refused");
    response.headers.set("Retry-After", std::to_string(seconds));
    return tl::unexpected(std::move(response));
  }
  return Reporter{backend->repo, backend->level, backend->device};
}

CallbackAnswer CallbackHandler::handle(const net::Request& request) {
  CallbackAnswer done;
  done.response = answer(request, done.delivery);
  // Refused before its body was read, which is done here for the log alone.
  if (done.response.status >= 400 && done.delivery.empty() && request.body.size() <= k_most_for_log)
    if (const auto body = base::parse_json(request.body, "body"))
      done.delivery = delivery_of(*body);
  return done;
}

net::Response CallbackHandler::answer(const net::Request& request, std::string& delivery) {
  constexpr std::string_view refused = "callback.refused";
  if (request.body.size() > k_callback_limit)
    return refuse({Fault::too_large, "body: larger than 4 MiB"}, refused);
  // An empty body is looked at after the token: without one it is 401, as it always was. So is what
  // a body holds: a stranger's text takes no more memory than it has.
  if (!request.body.empty())
    if (const auto is_json = base::check_json(request.body, "body"); !is_json)
      return refuse(is_json.error(), refused);
  const auto identity = identify(request, options_.verify);
  if (!identity) return refuse(identity.error(), refused);
  const Time now = clock_.now();
  const auto allowlist = allowlist_.current();
  const auto reporter = admit(identity->repo, *allowlist, limiter_, now);
  if (!reporter) return reporter.error();
  if (request.body.empty()) return refuse({Fault::invalid_input, "body: empty"}, refused);
  const auto parsed = base::parse_json(request.body, "body");
  if (!parsed) return refuse(parsed.error(), refused);
  delivery = delivery_of(*parsed);
  const auto body = parse_callback(*parsed);
  if (!body) return refuse(body.error(), refused);

  const Backend& backend = *allowlist->find(identity->repo);
  if (body->is_periodic() && !backend.nightly)
    return ignored("the repository is not listed for nightly");
  if (identity->run_id && *identity->run_id != body->run_id)
    return refuse({Fault::forbidden, "field workflow.run_id: the token is of another run"},
                  refused);
  std::int64_t attempt = body->run_attempt.value_or(1);
  if (identity->run_attempt) {
    const auto claimed = positive("run_attempt", *identity->run_attempt);
    if (!claimed || (body->run_attempt && *body->run_attempt != *claimed))
      return refuse(
          {Fault::forbidden, "field workflow.run_attempt: the token is of another attempt"},
          refused);
    attempt = *claimed;
  }

  auto commit = CommitState::verified;
  if (body->is_periodic()) {
    const auto answer =
        options_.find_commit ? options_.find_commit(body->delivery_id) : CommitAnswer::unknown;
    if (answer == CommitAnswer::missing)
      return refuse(
          {Fault::invalid_input, "field delivery_id: upstream has no commit " + body->delivery_id,
           "send the upstream commit that was tested"},
          refused);
    if (answer == CommitAnswer::unknown) commit = CommitState::unverified;
  }

  ReportTerms terms{.run_attempt = attempt, .commit = commit, .window = options_.report_window};
  terms.checks = options_.checks;
  if (options_.forwards) terms.forward = request.body;
  const auto recorded = record_report(store_, *reporter, *body, terms, now);
  if (!recorded) return refuse(recorded.error(), refused);
  log::info("callback", {{"delivery", body->delivery_id},
                         {"repo", reporter->repo.full_name()},
                         {"run_id", body->run_id},
                         {"job", body->job_name},
                         {"status", to_string(body->status)},
                         {"effect", to_string(recorded->effect)}});
  json::object answer{
      {"ok", true}, {"status", to_string(body->status)}, {"effect", to_string(recorded->effect)}};
  if (recorded->effect == Effect::duplicate) answer["duplicate"] = true;
  if (recorded->effect == Effect::replaced) answer["replaced"] = recorded->replaced.value_or("");
  if (recorded->job.completed_first) answer["completed_first"] = true;
  if (recorded->run_attempt != attempt) answer["run_attempt"] = recorded->run_attempt;
  if (body->is_periodic()) answer["commit_verified"] = commit == CommitState::verified;
  return answer_json(200, answer);
}

}  // namespace crosscheck::relay
