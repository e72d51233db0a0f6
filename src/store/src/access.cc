#include "crosscheck/store/access.h"

#include <algorithm>
#include <array>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"

namespace crosscheck::store {
namespace {

using base::Fault;
using base::Result;
using base::Time;

constexpr std::string_view k_prefix = "cct_";
constexpr std::size_t k_token_bytes = 32;
constexpr std::size_t k_name_limit = 64;
constexpr std::size_t k_text_limit = 500;  // bytes of what a caller may put into the audit log
constexpr base::Duration k_used_step = std::chrono::hours{1};

constexpr std::array<std::pair<Role, std::string_view>, 2> k_roles{
    {{Role::operate, "operator"}, {Role::admin, "admin"}}};

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= k_name_limit && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

constexpr std::string_view k_columns =
    "id, name, role, created_at, expires_at, revoked_at, last_used_at";

Result<AccessToken> token_of(const Row& row) {
  const auto role = parse_role(row.text(2));
  if (!role)
    return base::fail(Fault::environment, "access_tokens: unknown role '" + row.text(2) + "'",
                      "use the crosscheck that made this token, or revoke it");
  return AccessToken{.id = row.integer(0),
                     .name = row.text(1),
                     .role = *role,
                     .created_at = row.time(3),
                     .expires_at = row.optional_time(4),
                     .revoked_at = row.optional_time(5),
                     .last_used_at = row.optional_time(6)};
}

Result<void> insert(Tx& tx, std::string_view text, std::string_view name, Role role,
                    std::optional<Time> expires_at, Time now) {
  auto done = tx.execute(
      "INSERT INTO access_tokens (name, role, digest, created_at, expires_at) "
      "VALUES ($1, $2, $3, $4, $5)",
      {name, to_string(role), base::sha256_hex(text), now, expires_at});
  if (!done) return tl::unexpected(done.error());
  return {};
}

}  // namespace

std::string_view to_string(Role role) {
  const auto* found = std::ranges::find(k_roles, role, &std::pair<Role, std::string_view>::first);
  return found->second;
}

std::optional<Role> parse_role(std::string_view name) {
  for (const auto& [role, known] : k_roles)
    if (known == name) return role;
  return std::nullopt;
}

bool AccessToken::is_live(Time now) const {
  return !revoked_at && (!expires_at || now < *expires_at);
}

Result<std::string> create_token(Tx& tx, std::string_view name, Role role,
                                 std::optional<Time> expires_at, Time now) {
  if (!is_name(name))
    return base::fail(Fault::invalid_input, "'" + base::to_utf8(name, 80) + "' is no token's name",
                      "1 to 64 letters, digits, '.', '-' and '_': who will use it");
  if (expires_at && *expires_at <= now)
    return base::fail(Fault::invalid_input, "the token would have expired already");
  auto live = tx.query(
      "SELECT 1 FROM access_tokens WHERE name = $1 AND revoked_at IS NULL "
      "AND (expires_at IS NULL OR expires_at > $2)",
      {name, now});
  if (!live) return tl::unexpected(live.error());
  if (!live->empty())
    return base::fail(
        Fault::conflict, "there is a token named " + std::string{name},
        "choose another name, or revoke it: crosscheck token revoke " + std::string{name});
  std::string text = std::string{k_prefix} + base::random_hex(k_token_bytes);
  if (auto done = insert(tx, text, name, role, expires_at, now); !done)
    return tl::unexpected(done.error());
  return text;
}

Result<void> adopt_token(Tx& tx, std::string_view text, std::string_view name, Role role,
                         Time now) {
  auto known = tx.query("SELECT 1 FROM access_tokens WHERE digest = $1", {base::sha256_hex(text)});
  if (!known) return tl::unexpected(known.error());
  if (!known->empty()) return {};
  if (auto done = revoke_token(tx, name, now); !done) return tl::unexpected(done.error());
  return insert(tx, text, name, role, std::nullopt, now);
}

Result<std::int64_t> revoke_token(Tx& tx, std::string_view name, Time now) {
  return tx.execute(
      "UPDATE access_tokens SET revoked_at = $2 WHERE name = $1 AND revoked_at IS NULL "
      "AND (expires_at IS NULL OR expires_at > $2)",
      {name, now});
}

Result<std::vector<AccessToken>> list_tokens(Tx& tx) {
  auto rows = tx.query("SELECT " + std::string{k_columns} + " FROM access_tokens ORDER BY id DESC");
  if (!rows) return tl::unexpected(rows.error());
  std::vector<AccessToken> tokens;
  for (const Row& row : *rows) {
    auto token = token_of(row);
    if (!token) return tl::unexpected(token.error());
    tokens.push_back(std::move(*token));
  }
  return tokens;
}

Result<AccessToken> find_token(Tx& tx, std::string_view text, Role needed, Time now) {
  const auto refused = [](std::string why) {
    return base::fail(Fault::unauthorized, "the token " + std::move(why),
                      "make one: crosscheck token create --role operator --name NAME");
  };
  if (text.empty()) return refused("is missing");
  auto rows = tx.query("SELECT " + std::string{k_columns} + " FROM access_tokens WHERE digest = $1",
                       {base::sha256_hex(text)});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return refused("is unknown");
  auto token = token_of(rows->front());
  if (!token) return token;
  if (token->revoked_at) return refused("was revoked");
  if (!token->is_live(now)) return refused("has expired");
  if (token->role < needed)
    return base::fail(Fault::forbidden, "the token's role is " +
                                            std::string{to_string(token->role)} + ", this takes " +
                                            std::string{to_string(needed)});
  return token;
}

Result<AccessToken> authorize(Tx& tx, std::string_view text, Role needed, Time now) {
  auto token = find_token(tx, text, needed, now);
  if (!token) return token;
  if (!token->last_used_at || now - *token->last_used_at >= k_used_step) {
    auto noted =
        tx.execute("UPDATE access_tokens SET last_used_at = $1 WHERE id = $2", {now, token->id});
    if (!noted) return tl::unexpected(noted.error());
    token->last_used_at = now;
  }
  return token;
}

Result<void> audit(Tx& tx, const AuditEntry& entry) {
  auto done = tx.execute(
      "INSERT INTO audit_log (at, actor, origin, action, subject, outcome) "
      "VALUES ($1, $2, $3, $4, $5, $6)",
      {entry.at, entry.actor, entry.origin, entry.action,
       base::to_utf8(entry.subject, k_text_limit), base::to_utf8(entry.outcome, k_text_limit)});
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<std::vector<AuditEntry>> audit_tail(Tx& tx, std::int64_t limit) {
  auto rows = tx.query(
      "SELECT at, actor, origin, action, subject, outcome FROM audit_log ORDER BY id DESC LIMIT $1",
      {limit});
  if (!rows) return tl::unexpected(rows.error());
  std::vector<AuditEntry> entries;
  for (const Row& row : *rows)
    entries.push_back(
        {row.time(0), row.text(1), row.text(2), row.text(3), row.text(4), row.text(5)});
  return entries;
}

}  // namespace crosscheck::store
