#include "crosscheck/gate/process_launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "crosscheck/base/file.h"
#include "crosscheck/base/process.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;
namespace fs = std::filesystem;
using base::fail;
using base::Fault;
using Steady = std::chrono::steady_clock;

// Of what a launch prints, the end is kept: there the reason stands.
constexpr std::size_t k_kept_output = 16 * 1024;
// Importing torch, compiling and the last iteration come on top of the time that iterations have.
constexpr auto k_time_beside = std::chrono::minutes{5};
constexpr auto k_grace = std::chrono::seconds{2};

void keep_end(std::string& kept, std::string_view more) {
  kept += more;
  if (kept.size() > 2 * k_kept_output) kept.erase(0, kept.size() - k_kept_output);
}

enum class End : std::uint8_t { exited, timed_out, interrupted };

// Reads what the process prints until it ends.
End attend(base::Process& process, const base::Fd& output, std::string& printed,
           Steady::time_point deadline, int interrupt_fd) {
  const base::Fd ended{static_cast<int>(::syscall(SYS_pidfd_open, process.pid(), 0))};
  bool open = true;
  while (true) {
    std::array<pollfd, 3> fds{{{ended.get(), POLLIN, 0},
                               {interrupt_fd, POLLIN, 0},
                               {open ? output.get() : -1, POLLIN, 0}}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Steady::now());
    if (left.count() <= 0) return End::timed_out;
    const int ready = ::poll(fds.data(), fds.size(),
                             static_cast<int>(std::min<std::int64_t>(left.count() + 1, 3'600'000)));
    if (ready < 0 && errno != EINTR) return End::timed_out;
    if (ready <= 0) continue;
    if (fds[2].revents != 0) {
      std::array<char, 65536> buffer{};
      const auto count = ::read(output.get(), buffer.data(), buffer.size());
      if (count > 0) {
        keep_end(printed, {buffer.data(), static_cast<std::size_t>(count)});
        continue;  // what it printed before it ended comes first
      }
      open = false;
    }
    if (fds[1].revents != 0) return End::interrupted;
    if (fds[0].revents != 0) return End::exited;
  }
}

// For a POSIX shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return out + "'";
}

std::string last_lines(std::string_view text, std::size_t count) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  auto begin = text.size();
  for (std::size_t i = 0; i < count && begin != std::string_view::npos && begin > 0; ++i) {
    begin = text.rfind('\n', begin - 1);
  }
  return std::string{begin == std::string_view::npos || begin == 0 ? text : text.substr(begin + 1)};
}

}  // namespace

std::string failed_answer(std::string_view mode, std::string_view reason,
                          std::string_view printed) {
  return base::canonical_json(json::object{{"format", 1},
                                           {"status", "failed"},
                                           {"failure_mode", mode},
                                           {"reason", reason},
                                           {"printed", base::to_utf8(last_lines(printed, 20))}});
}

ProcessLauncher::ProcessLauncher(const Manifest& manifest, Interpreters interpreters,
                                 std::string scratch_folder, int interrupt_fd)
    : manifest_{manifest},
      interpreters_{std::move(interpreters)},
      scratch_{std::move(scratch_folder)},
      interrupt_fd_{interrupt_fd} {}

std::string ProcessLauncher::command(const LaunchRequest& request) const {
  const auto asked = json::serialize(request_json(manifest_, request));
  return fmt::format(
      "printf %s {} >request.json && PYTHONPATH={} {} -m crosscheck_probe.workload "
      "request.json result.json",
      quoted(asked), quoted(interpreters_.probe_path), quoted(interpreters_.of(request.side)));
}

base::Result<Launcher::Answer> ProcessLauncher::launch(const LaunchRequest& request) {
  const auto request_path = fs::path{scratch_} / "request.json";
  const auto result_path = fs::path{scratch_} / "result.json";
  std::error_code error;
  fs::create_directories(scratch_, error);
  fs::remove(result_path, error);
  if (!request.checkpoint.empty() && request.purpose == Purpose::exact) {
    fs::remove_all(request.checkpoint, error);
    fs::create_directories(request.checkpoint, error);
    if (error) {
      return fail(Fault::environment, fmt::format("{}: {}", request.checkpoint, error.message()));
    }
  }
  if (auto done = base::write_file_atomically(request_path,
                                              json::serialize(request_json(manifest_, request)));
      !done) {
    return tl::unexpected(done.error());
  }
  // What a killed launch leaves in it goes too.
  const auto temporary = (fs::path{scratch_} / "tmp").string();
  fs::create_directories(temporary, error);
  auto output = base::make_pipe();
  if (!output) return tl::unexpected(output.error());
  base::ProcessSpec spec{
      .arguments = {interpreters_.of(request.side), "-m", "crosscheck_probe.workload",
                    request_path.string(), result_path.string()},
      .directory = scratch_,
      .environment = {{"PYTHONPATH", interpreters_.probe_path}, {"TMPDIR", temporary}},
      .descriptors = {{output->write.get(), STDOUT_FILENO}, {output->write.get(), STDERR_FILENO}},
      .die_with_parent = true};
  auto process = base::Process::spawn(spec);
  if (!process) return tl::unexpected(process.error());
  output->write.reset();

  const auto limit = workload_of(manifest_, request.cell).time_limit + k_time_beside;
  std::string printed;
  const auto end = attend(*process, output->read, printed, Steady::now() + limit, interrupt_fd_);
  const auto status = process->stop(k_grace);
  fs::remove_all(temporary, error);
  if (end == End::interrupted) {
    return fail(Fault::unavailable, "interrupted",
                "the same command goes on where it was; the launch in progress is made again");
  }
  const auto failed = [&](std::string_view mode, std::string reason) -> base::Result<Answer> {
    auto text = failed_answer(mode, reason, printed);
    LaunchResult result;
    result.status = LaunchStatus::failed;
    result.reason = std::move(reason);
    result.failure_mode = mode;
    return Answer{std::move(result), std::move(text)};
  };
  if (end == End::timed_out) {
    return failed("timeout", fmt::format("no end after {}", base::to_human(limit)));
  }
  if (status.code == 4 || status.code == 2) {
    return fail(status.code == 4 ? Fault::environment : Fault::invalid_input,
                fmt::format("the {}'s workload '{}' does not start: {}", to_string(request.side),
                            request.cell.workload, base::to_utf8(last_lines(printed, 3))));
  }
  if (!fs::exists(result_path, error)) {
    return failed("crash", fmt::format("{} before there was a result: {}", base::to_string(status),
                                       base::to_utf8(last_lines(printed, 1))));
  }
  auto text = base::read_file(result_path);
  if (!text) return tl::unexpected(text.error());
  auto result = read_launch_result(*text);
  if (!result) return failed("no_result", result.error().message);
  return Answer{std::move(*result), std::move(*text)};
}

}  // namespace crosscheck::gate
