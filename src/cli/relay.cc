#include "crosscheck/relay/replay.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "actor.h"
#include "command.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Fault;
using base::Result;

struct Options {
  std::int64_t dispatch = 0;
  std::int64_t call = 0;
  std::int64_t report = 0;
  std::string delivery;
  bool all_dead = false;
};

const CLI::Range k_id{std::int64_t{1}, std::numeric_limits<std::int64_t>::max()};

Result<ExitCode> replay(const Globals& globals, const Options& options) {
  if (int{options.dispatch != 0} + int{options.call != 0} + int{options.report != 0} +
          int{!options.delivery.empty()} + int{options.all_dead} !=
      1)
    return base::fail(Fault::usage, "say what to replay",
                      "one of --dispatch ID, --call ID, --report ID, --delivery ID and --all-dead");
  relay::ReplayWhat what = relay::ReplayAllDead{};
  if (options.dispatch != 0) what = relay::ReplayDispatch{options.dispatch};
  if (options.call != 0) what = relay::ReplayCall{options.call};
  if (options.report != 0) what = relay::ReplayReport{options.report};
  if (!options.delivery.empty()) what = relay::ReplayDelivery{options.delivery};
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  store::OpenOptions open_options;
  open_options.create = false;
  auto store = store::open(*url, open_options);
  if (!store) return tl::unexpected(store.error());
  const Actor actor = command_line_actor();
  const auto done = (*store)->write_value([&](store::Tx& tx) {
    return relay::replay(tx, what, {actor.name(), actor.origin()}, base::SystemClock{}.now());
  });
  if (!done) return tl::unexpected(done.error());
  if (globals.json) {
    const boost::json::object object{{"armed", done->armed}, {"left", done->left}};
    std::printf("%s\n", boost::json::serialize(object).c_str());
    return ExitCode::ok;
  }
  std::printf("%lld put back into the outbox: the relay on this store sends them\n",
              static_cast<long long>(done->armed));
  if (done->left > 0)
    std::printf("%lld left dead: superseded or replaced, or their event is past its retention\n",
                static_cast<long long>(done->left));
  return ExitCode::ok;
}

const Registration k_registration{
    "relay", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("relay", "What the relay keeps, set right by hand");
      command->footer("Example:\n  crosscheck relay replay --all-dead");
      command->require_subcommand(1);
      auto* replaying = command->add_subcommand(
          "replay", "Put what is dead back into its outbox (also a button on /ops)");
      replaying->footer(
          "Dispatches, other calls to GitHub, reports for another HUD.\n"
          "Works on the store; a running relay sends within a second.\n"
          "Example:\n"
          "  crosscheck relay replay --dispatch 42 --db postgresql://relay@db.example/relay");
      const auto options = std::make_shared<Options>();
      replaying->add_option("--dispatch", options->dispatch, "One dispatch, by its number on /ops")
          ->check(k_id);
      replaying
          ->add_option("--call", options->call, "One other call to GitHub, by its number on /ops")
          ->check(k_id);
      replaying
          ->add_option("--report", options->report,
                       "One report for another HUD, by its number on /ops")
          ->check(k_id);
      replaying->add_option("--delivery", options->delivery,
                            "What is dead of one event, by its X-GitHub-Delivery");
      replaying->add_flag("--all-dead", options->all_dead, "All that is dead");
      replaying->callback([&globals, &action, options] {
        action = [&globals, options] { return replay(globals, *options); };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
