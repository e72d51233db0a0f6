#include "worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "crosscheck/runner/fork_server.h"
#include "memory.h"
#include "orphans.h"

namespace crosscheck::runner {
namespace {

using base::fail;
using base::Fault;
using base::Fd;
using base::Result;
namespace json = base::json;

// What one call reads of a stream at most, so that a test that floods its output starves no other
// worker.
constexpr std::size_t k_turn = std::size_t{1} << 20;

// Hands what `fd` holds to `take`, up to `limit` bytes. Closes it at its end.
template <class F>
void drain(Fd& fd, std::size_t limit, F take) {
  std::array<char, 65536> buffer;
  while (fd && limit > 0) {
    const auto got = ::read(fd.get(), buffer.data(), std::min(buffer.size(), limit));
    if (got > 0) {
      take(std::string_view{buffer.data(), static_cast<std::size_t>(got)});
      limit -= static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      fd.reset();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

std::string python_path(const ProbeSetup& setup) {
  std::string path = setup.probe_path;
  if (const char* inherited = std::getenv("PYTHONPATH"); inherited != nullptr && *inherited != 0) {
    path += std::string{":"} + inherited;
  }
  return path;
}

}  // namespace

Result<Fd> request_file(const std::string& text) {
  Fd file{::memfd_create("crosscheck-request", MFD_CLOEXEC)};
  std::string_view rest = text;
  while (file && !rest.empty()) {
    const auto written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (!file || !rest.empty() || ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return fail(Fault::environment,
                std::string{"a request cannot be handed to the probe: "} + std::strerror(errno));
  }
  return file;
}

base::ProcessSpec probe_process(const ProbeSetup& setup, std::string_view verb) {
  base::ProcessSpec spec;
  // By its path and not with -m: torch's test machinery looks at the whole call stack of every
  // OpInfo test, and Python searches all its modules, 1 ms, for each frame that has no file, as the
  // frames of runpy have none.
  spec.arguments = {setup.python,      "-P",   setup.probe_path + "/crosscheck_probe/__main__.py",
                    std::string{verb}, "--fd", std::to_string(k_events_fd),
                    "--request",       "-"};
  for (const auto& [name, value] : setup.environment) spec.environment.emplace_back(name, value);
  const auto mark = std::string_view{runner_mark()};
  spec.environment.emplace_back(mark.substr(0, mark.find('=')), mark.substr(mark.find('=') + 1));
  spec.environment.emplace_back("PYTHONPATH", python_path(setup));
  spec.environment.emplace_back("PYTHONFAULTHANDLER", "1");
  spec.environment.emplace_back("PYTHONUNBUFFERED", "1");
  spec.die_with_parent = true;
  return spec;
}

void Tail::append(std::string_view text) {
  if (text.size() >= limit_) {
    held_ = text.substr(text.size() - limit_);
    return;
  }
  held_ += text;
  // Cut only when twice the limit is held: each byte is moved once.
  if (held_.size() > 2 * limit_) held_.erase(0, held_.size() - limit_);
}

std::string Tail::text() const {
  return held_.size() <= limit_ ? held_ : held_.substr(held_.size() - limit_);
}

void LineBuffer::append(std::string_view bytes, std::vector<std::string>& lines) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    if (!dropping_) held_ += part;
    const bool whole = end != std::string_view::npos;
    if (!dropping_ && (whole || held_.size() > k_limit)) {
      if (held_.size() > k_limit) held_.resize(k_limit);
      lines.push_back(std::exchange(held_, {}));
      dropping_ = !whole;
    } else if (whole) {
      dropping_ = false;
    }
    bytes.remove_prefix(whole ? end + 1 : bytes.size());
  }
}

Result<Worker> Worker::start(const ProbeSetup& setup, std::string_view verb,
                             const json::object& request) {
  take_on_orphans();
  auto input = request_file(json::serialize(request));
  auto events = base::make_pipe();
  auto out = base::make_pipe();
  auto err = base::make_pipe();
  if (!input) return tl::unexpected(input.error());
  if (!events) return tl::unexpected(events.error());
  if (!out) return tl::unexpected(out.error());
  if (!err) return tl::unexpected(err.error());

  std::optional<base::Process> process;
  if (setup.fork_server != nullptr) {
    process = setup.fork_server->fork(
        verb, {input->get(), out->write.get(), err->write.get(), events->write.get()});
  }
  if (!process) {
    auto spec = probe_process(setup, verb);
    spec.descriptors = {{input->get(), 0},
                        {out->write.get(), 1},
                        {err->write.get(), 2},
                        {events->write.get(), k_events_fd}};
    auto spawned = base::Process::spawn(spec);
    if (!spawned) return tl::unexpected(spawned.error());
    process = std::move(*spawned);
  }
  offer_to_oom_killer(process->pid());
  for (const auto* end : {&events->read, &out->read, &err->read}) {
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  return Worker{std::move(*process), std::move(events->read), std::move(out->read),
                std::move(err->read)};
}

void Worker::watch(std::vector<pollfd>& descriptors) const {
  for (const auto* fd : {&events_, &out_, &err_}) {
    if (*fd) descriptors.push_back({fd->get(), POLLIN, 0});
  }
}

std::vector<std::string> Worker::read() {
  std::vector<std::string> lines;
  drain(out_, k_turn, [&](std::string_view bytes) { out_tail_.append(bytes); });
  drain(err_, k_turn, [&](std::string_view bytes) { err_tail_.append(bytes); });
  drain(events_, k_turn, [&](std::string_view bytes) { lines_.append(bytes, lines); });
  return lines;
}

std::optional<Ended> Worker::ended(std::vector<std::string>& last_lines) {
  const auto status = process_.poll();
  if (!status) return {};
  // A process that the tests left behind would hold the pipes open, and the device busy.
  process_.signal(SIGKILL);
  end_orphans();
  constexpr std::size_t k_pipe_and_more = std::size_t{16} << 20;
  drain(out_, k_pipe_and_more, [&](std::string_view bytes) { out_tail_.append(bytes); });
  drain(err_, k_pipe_and_more, [&](std::string_view bytes) { err_tail_.append(bytes); });
  drain(events_, k_pipe_and_more,
        [&](std::string_view bytes) { lines_.append(bytes, last_lines); });
  return Ended{*status, out_tail_.text(), err_tail_.text()};
}

void Worker::abandon() && {
  // Its destructor would wait for a process that does not end.
  [[maybe_unused]] static std::vector<base::Process*> left_behind;
  left_behind.push_back(new base::Process{std::move(process_)});
}

json::object to_json(const Device& device) {
  json::object object{{"name", device.name}};
  if (!device.module.empty()) {
    json::object setup{{"module", device.module}};
    if (!device.path.empty()) setup["path"] = device.path;
    object["setup"] = std::move(setup);
  }
  return object;
}

json::object to_json(const Suite& suite) {
  json::object object{{"name", suite.name}};
  if (!suite.root.empty()) object["root"] = suite.root;
  if (!suite.files.empty()) {
    json::array files;
    for (const auto& file : suite.files) files.emplace_back(file);
    object["files"] = std::move(files);
  }
  return object;
}

bool take_interrupt(int fd) {
  if (fd < 0) return false;
  pollfd readable{fd, POLLIN, 0};
  if (::poll(&readable, 1, 0) != 1 || (readable.revents & POLLIN) == 0) return false;
  char byte = 0;
  return ::read(fd, &byte, 1) == 1;
}

}  // namespace crosscheck::runner
