#include "crosscheck/runner/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>

#include "crosscheck/base/log.h"
#include "orphans.h"
#include "worker.h"

namespace crosscheck::runner {
namespace {

using base::Fd;
namespace json = base::json;

// For the imports; a fork takes milliseconds, and longer on a machine that has no memory left.
constexpr std::chrono::minutes k_imports{5};
constexpr std::chrono::seconds k_fork{30};

// A packet, once there is one. Nothing: the other end is gone, says nothing in time, or
// `interrupt_fd` became readable.
std::optional<std::string> receive(int socket, int interrupt_fd, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return {};
    std::array<pollfd, 2> watched{pollfd{socket, POLLIN, 0}, pollfd{interrupt_fd, POLLIN, 0}};
    const int found = ::poll(watched.data(), watched.size(), static_cast<int>(left.count()));
    if (found < 0 && errno != EINTR) return {};
    if (found <= 0) continue;
    if (watched[0].revents != 0) {
      std::array<char, 256> text{};
      const auto got = ::recv(socket, text.data(), text.size(), MSG_DONTWAIT);
      if (got <= 0) return {};
      return std::string{text.data(), static_cast<std::size_t>(got)};
    }
    if (watched[1].revents != 0) return {};
  }
}

bool send(int socket, std::string_view text, const std::array<int, 4>& descriptors) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> space{};
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

}  // namespace

ForkServer::ForkServer(const ProbeSetup& setup, int interrupt_fd) : interrupt_fd_{interrupt_fd} {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  control_ = Fd{ends[0]};
  const Fd theirs{ends[1]};
  const Fd nowhere{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  const auto input = request_file(json::serialize(json::object{{"device", to_json(setup.device)}}));
  if (!nowhere || !input) {
    close();
    return;
  }
  auto spec = probe_process(setup, "forkserver");
  // What an import prints, the processes that are forked do not print again; where it fails, the
  // caller's own process does.
  spec.descriptors = {
      {input->get(), 0}, {nowhere.get(), 1}, {nowhere.get(), 2}, {theirs.get(), k_events_fd}};
  auto process = base::Process::spawn(spec);
  if (process) {
    process_ = std::move(*process);
  } else {
    close();
  }
}

void ForkServer::close() {
  control_.reset();
  process_.reset();
  ready_ = false;
}

bool ForkServer::is_ready() {
  if (ready_ || !control_) return ready_;
  const auto said = receive(control_.get(), interrupt_fd_, k_imports);
  ready_ = said == "ready";
  if (ready_) return true;
  base::log::debug("forkserver.closed", {{"reason", said.value_or("no answer")}});
  close();
  return false;
}

std::optional<base::Process> ForkServer::fork(std::string_view verb,
                                              const std::array<int, 4>& descriptors) {
  if (!is_ready()) return {};
  take_on_orphans();
  const Adoption adoption;
  if (send(control_.get(), verb, descriptors)) {
    const auto said = receive(control_.get(), -1, k_fork);
    pid_t pid = 0;
    if (said) std::from_chars(said->data(), said->data() + said->size(), pid);
    if (pid > 0) return base::Process::adopt(pid);
  }
  close();
  return {};
}

}  // namespace crosscheck::runner
