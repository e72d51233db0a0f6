#include "call.h"

#include <poll.h>

#include <algorithm>
#include <csignal>

#include "orphans.h"
#include "reaper.h"
#include "text.h"
#include "worker.h"

namespace crosscheck::runner {
namespace {

using base::fail;
using base::Fault;
using base::Result;
namespace json = base::json;

// The version that the probe's requirements pin; what to install where torch is missing.
constexpr const char* k_torch_requirement = "torch==2.13.0";

std::string last_lines(const std::string& text, std::size_t count) {
  std::vector<std::string_view> lines;
  for_each_line(text, [&](std::string_view line) {
    if (!line.empty()) lines.push_back(line);
  });
  std::string out;
  for (std::size_t i = lines.size() - std::min(count, lines.size()); i < lines.size(); ++i) {
    out += (out.empty() ? "" : "\n  ") + std::string{lines[i]};
  }
  return base::to_utf8(out, 4096);
}

std::string install(const ProbeSetup& setup, const std::string& what) {
  return "scripts/setup installs what is needed into .venv; or: " + setup.python +
         " -m pip install " + what;
}

// The remedy for a module that Python says is missing.
std::string remedy_for(const ProbeSetup& setup, std::string_view text) {
  constexpr std::string_view k_mark = "No module named '";
  std::string module;
  if (const auto at = text.find(k_mark); at != std::string_view::npos) {
    const auto rest = text.substr(at + k_mark.size());
    module = rest.substr(0, rest.find_first_of("'."));
  } else if (text.find("crosscheck_probe/__main__.py'") != std::string_view::npos) {
    module = "crosscheck_probe";
  }
  if (module.empty()) return {};
  if (module == "crosscheck_probe") {
    return "set CROSSCHECK_PROBE to the folder that holds crosscheck_probe (probe/src of "
           "crosscheck)";
  }
  if (module == setup.device.module && module == "refdev") {
    return "build the reference device: scripts/setup";
  }
  if (module == setup.device.module) {
    return "install the backend, or give the folder that holds its module with --device-path";
  }
  if (module != "torch") return install(setup, module);
  // Without the build ("+cpu"), which is no version that can be asked for.
  const auto version = setup.torch.substr(0, setup.torch.find('+'));
  return install(setup, version.empty() ? k_torch_requirement : "torch==" + version);
}

base::Error cannot_start(const ProbeSetup& setup, const std::string& why, const Ended& ended) {
  std::string text = "the probe does not run under " + setup.python + ": ";
  text += why.empty() ? base::to_string(ended.status) : why;
  const auto said = last_lines(ended.err, 8);
  // The probe repeats its message on standard error.
  if (why.empty() && !said.empty()) text += "; it wrote:\n  " + said;
  if (ended.err.find("unknown option -P") != std::string::npos ||
      ended.err.find("Unknown option: -P") != std::string::npos) {
    return {Fault::environment, text, "Python 3.11 or newer is needed: give one with --python"};
  }
  return {Fault::environment, text, remedy_for(setup, why.empty() ? ended.err : why)};
}

}  // namespace

Result<Outcome> call(const ProbeSetup& setup, std::string_view verb, const json::object& request,
                     const CallOptions& options, const std::function<void(Event)>& take) {
  const EndsOrphans at_the_end;
  auto reaper = Reaper::start();
  if (!reaper) return tl::unexpected(reaper.error());
  auto worker = Worker::start(setup, verb, request);
  if (!worker) {
    auto error = worker.error();
    error.remedy =
        "install Python 3.11 or newer with torch (scripts/setup does), or give another "
        "interpreter with --python or CROSSCHECK_PYTHON";
    return tl::unexpected(std::move(error));
  }
  reaper->remember(worker->pid());
  const auto began = std::chrono::steady_clock::now();
  const auto since = [](std::chrono::steady_clock::time_point then) {
    return std::chrono::duration_cast<base::Duration>(std::chrono::steady_clock::now() - then);
  };
  Took took;
  auto give_up = began + options.start.value_or(options.limit);
  Outcome outcome;
  std::optional<base::Error> broken;
  const auto read = [&](const std::vector<std::string>& lines) {
    for (const auto& line : lines) {
      if (broken) return;
      auto event = parse_event(line);
      if (!event) {
        broken = event.error();
        broken->fault = Fault::environment;
        broken->message = "the probe under " + setup.python + " wrote what is " + broken->message;
        worker->signal(SIGKILL);
      } else if (auto* failure = std::get_if<ProbeFailure>(&*event)) {
        outcome.failure = std::move(*failure);
      } else if (std::holds_alternative<End>(*event)) {
        outcome.complete = true;
      } else {
        if (std::holds_alternative<Environment>(*event)) took.start = since(began);
        take(std::move(*event));
      }
    }
  };
  while (true) {
    std::vector<pollfd> descriptors;
    worker->watch(descriptors);
    if (options.interrupt_fd >= 0) descriptors.push_back({options.interrupt_fd, POLLIN, 0});
    ::poll(descriptors.data(), descriptors.size(), 50);
    const auto lines = worker->read();
    if (!lines.empty()) give_up = std::chrono::steady_clock::now() + options.limit;
    read(lines);
    std::vector<std::string> last;
    if (auto ended = worker->ended(last)) {
      read(last);
      reaper->forget(worker->pid());
      if (broken) return tl::unexpected(std::move(*broken));
      outcome.ended = std::move(*ended);
      took.rest = since(began) - took.start;
      if (options.took != nullptr) *options.took = took;
      return outcome;
    }
    if (take_interrupt(options.interrupt_fd)) return fail(Fault::unavailable, "interrupted");
    if (!outcome.hung && std::chrono::steady_clock::now() >= give_up) {
      outcome.hung = true;
      worker->signal(SIGKILL);
    }
  }
}

std::string how_ended(const Outcome& outcome, const CallOptions& options) {
  if (outcome.hung) return "its process said nothing for " + base::to_human(options.limit);
  return "its process died: " + base::to_string(outcome.ended.status);
}

base::Error failure_of(const ProbeSetup& setup, const Outcome& outcome,
                       const CallOptions& options) {
  std::string why;
  if (outcome.hung) why = how_ended(outcome, options);
  if (outcome.failure) {
    why = outcome.failure->message.empty() ? outcome.failure->type : outcome.failure->message;
  }
  return cannot_start(setup, why, outcome.ended);
}

}  // namespace crosscheck::runner
