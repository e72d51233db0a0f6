#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/store/store.h"

// Who may change what, and who did: tokens are made at the command line and asked for by the
// server, the audit log is written by both and shown by the HUD. One place knows their tables.
namespace crosscheck::store {

// The names are stored. Each may do what the one before it may.
enum class Role : std::uint8_t {
  operate,  // "operator": replay dispatches
  admin,    // and see where changes came from
};
[[nodiscard]] std::string_view to_string(Role role);
[[nodiscard]] std::optional<Role> parse_role(std::string_view name);

struct AccessToken {
  std::int64_t id = 0;
  std::string name;
  Role role = Role::operate;
  base::Time created_at{};
  std::optional<base::Time> expires_at;
  std::optional<base::Time> revoked_at;
  std::optional<base::Time> last_used_at;  // to within an hour
  [[nodiscard]] bool is_live(base::Time now) const;
};

// Makes a token and returns its text: the store keeps a digest, so nobody can read it again.
// `conflict` when a live token has that name, `invalid_input` for a name that is not 1 to 64
// letters, digits, '.', '-' or '_'.
[[nodiscard]] base::Result<std::string> create_token(Tx& tx, std::string_view name, Role role,
                                                     std::optional<base::Time> expires_at,
                                                     base::Time now);
// Makes `text`, kept elsewhere, the one token of `name`. Changes nothing when the store has it,
// revoked ones included.
[[nodiscard]] base::Result<void> adopt_token(Tx& tx, std::string_view text, std::string_view name,
                                             Role role, base::Time now);
// How many were revoked: 0 or 1.
[[nodiscard]] base::Result<std::int64_t> revoke_token(Tx& tx, std::string_view name,
                                                      base::Time now);
// Newest first, dead ones included.
[[nodiscard]] base::Result<std::vector<AccessToken>> list_tokens(Tx& tx);
// Whose `text` is, if it may do what `needed` may; `unauthorized` when it is no token or no longer
// one, `forbidden` when its role is too low.
[[nodiscard]] base::Result<AccessToken> find_token(Tx& tx, std::string_view text, Role needed,
                                                   base::Time now);
// The same for who changes something: notes that it was used.
[[nodiscard]] base::Result<AccessToken> authorize(Tx& tx, std::string_view text, Role needed,
                                                  base::Time now);

struct AuditEntry {
  base::Time at{};
  std::string actor;    // "token:<name>", "user:<name>"
  std::string origin;   // an address, or "<host> (command line)"
  std::string action;   // "replay"
  std::string subject;  // "dispatch 12"
  std::string outcome;  // "1 armed again"
};
[[nodiscard]] base::Result<void> audit(Tx& tx, const AuditEntry& entry);
// Newest first.
[[nodiscard]] base::Result<std::vector<AuditEntry>> audit_tail(Tx& tx, std::int64_t limit);

}  // namespace crosscheck::store
