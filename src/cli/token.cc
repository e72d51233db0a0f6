#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <memory>
#include <vector>

#include "actor.h"
#include "command.h"
#include "crosscheck/base/time.h"
#include "crosscheck/store/access.h"
#include "duration.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Fault;
using base::Result;
using base::Time;

struct Options {
  std::string name;
  std::string role;
  std::string expires;
};

// Of a relay: a token in a store that is made for it would open nothing.
Result<std::unique_ptr<store::Store>> open_store(const Globals& globals) {
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  store::OpenOptions options;
  options.create = false;
  return store::open(*url, options);
}

boost::json::value time_or_null(const std::optional<Time>& time) {
  return time ? boost::json::value(base::to_rfc3339(*time)) : boost::json::value(nullptr);
}

Result<ExitCode> create(const Globals& globals, const Options& options) {
  const auto role = store::parse_role(options.role);
  if (!role)
    return base::fail(Fault::usage, "--role: '" + options.role + "' is no role",
                      "use operator or admin");
  const Time now = base::SystemClock{}.now();
  std::optional<Time> expires;
  if (!options.expires.empty()) {
    const auto in = parse_duration(options.expires);
    if (!in) return base::fail(Fault::usage, "--expires: " + in.error().message, in.error().remedy);
    expires = now + *in;
  }
  auto store = open_store(globals);
  if (!store) return tl::unexpected(store.error());
  const auto text = (*store)->write_value([&](store::Tx& tx) -> Result<std::string> {
    auto made = store::create_token(tx, options.name, *role, expires, now);
    if (!made) return made;
    std::string outcome = "role " + options.role;
    if (expires) outcome += ", until " + base::to_rfc3339(*expires);
    const Actor actor = command_line_actor();
    if (auto noted = store::audit(tx, {now, actor.name(), actor.origin(), "token.create",
                                       options.name, std::move(outcome)});
        !noted)
      return tl::unexpected(noted.error());
    return made;
  });
  if (!text) return tl::unexpected(text.error());
  if (globals.json) {
    const boost::json::object object{{"name", options.name},
                                     {"role", options.role},
                                     {"token", *text},
                                     {"expires_at", time_or_null(expires)}};
    std::printf("%s\n", boost::json::serialize(object).c_str());
    return ExitCode::ok;
  }
  std::printf("%s\n", text->c_str());
  std::fprintf(stderr, "This is the only time that the token is shown.\n");
  return ExitCode::ok;
}

Result<ExitCode> list(const Globals& globals) {
  auto store = open_store(globals);
  if (!store) return tl::unexpected(store.error());
  const auto tokens = (*store)->read_value([](store::Tx& tx) { return store::list_tokens(tx); });
  if (!tokens) return tl::unexpected(tokens.error());
  const Time now = base::SystemClock{}.now();
  const auto state = [&](const store::AccessToken& token) {
    return token.revoked_at ? "revoked" : token.is_live(now) ? "live" : "expired";
  };
  if (globals.json) {
    boost::json::array array;
    for (const auto& token : *tokens)
      array.push_back(boost::json::object{{"name", token.name},
                                          {"role", to_string(token.role)},
                                          {"state", state(token)},
                                          {"created_at", base::to_rfc3339(token.created_at)},
                                          {"expires_at", time_or_null(token.expires_at)},
                                          {"revoked_at", time_or_null(token.revoked_at)},
                                          {"last_used_at", time_or_null(token.last_used_at)}});
    std::printf("%s\n", boost::json::serialize(array).c_str());
    return ExitCode::ok;
  }
  for (const auto& token : *tokens)
    std::printf("%-24s %-8s %-7s  made %s  last used %s\n", token.name.c_str(),
                std::string{to_string(token.role)}.c_str(), state(token),
                base::to_rfc3339(token.created_at).c_str(),
                token.last_used_at ? base::to_rfc3339(*token.last_used_at).c_str() : "never");
  return ExitCode::ok;
}

Result<ExitCode> revoke(const Globals& globals, const std::string& name) {
  auto store = open_store(globals);
  if (!store) return tl::unexpected(store.error());
  const Time now = base::SystemClock{}.now();
  const auto revoked = (*store)->write_value([&](store::Tx& tx) -> Result<std::int64_t> {
    auto done = store::revoke_token(tx, name, now);
    if (!done || *done == 0) return done;
    const Actor actor = command_line_actor();
    if (auto noted =
            store::audit(tx, {now, actor.name(), actor.origin(), "token.revoke", name, "revoked"});
        !noted)
      return tl::unexpected(noted.error());
    return done;
  });
  if (!revoked) return tl::unexpected(revoked.error());
  if (*revoked == 0)
    return base::fail(Fault::not_found, "no live token is named " + name,
                      "crosscheck token list shows them");
  if (globals.json)
    std::printf(
        "%s\n",
        boost::json::serialize(boost::json::object{{"name", name}, {"revoked", true}}).c_str());
  else
    std::printf("%s is revoked\n", name.c_str());
  return ExitCode::ok;
}

const Registration k_registration{
    "token", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("token", "Who may change something on the server");
      command->footer("Example:\n  crosscheck token create --role operator --name alice");
      command->require_subcommand(1);
      const auto options = std::make_shared<Options>();
      auto* making = command->add_subcommand(
          "create", "Make a token and print it once: the store keeps a digest of it");
      making->footer(
          "A token is sent as `Authorization: Bearer …`, or typed into the form on /ops.\n"
          "Example:\n"
          "  crosscheck token create --role operator --name alice --expires 90d");
      making->add_option("--role", options->role, "operator (replays dispatches) or admin")
          ->required();
      making->add_option("--name", options->name, "Whose it is: it stands in the audit log")
          ->required();
      making->add_option("--expires", options->expires, "After how long, such as 12h or 90d");
      making->callback([&globals, &action, options] {
        action = [&globals, options] { return create(globals, *options); };
      });
      auto* listing = command->add_subcommand("list", "Print all tokens, without their texts");
      listing->footer("Example:\n  crosscheck token list --json");
      listing->callback([&] { action = [&] { return list(globals); }; });
      auto* revoking = command->add_subcommand("revoke", "Make a token worthless at once");
      revoking->footer("Example:\n  crosscheck token revoke alice");
      revoking->add_option("NAME", options->name, "The token's name")->required();
      revoking->callback([&globals, &action, options] {
        action = [&globals, options] { return revoke(globals, options->name); };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
