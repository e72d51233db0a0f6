#include "load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "crosscheck/base/process.h"

namespace crosscheck::bench {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::microseconds;

base::Fd connect_to(std::uint16_t port) {
  base::Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

struct Line {
  base::Fd fd;
  std::string in;
  const std::string* out = nullptr;
  std::size_t sent = 0;
  bool blocked = false;  // the socket took no more, and is watched for room
  Steady::time_point began;
};

// The length of the answer at the beginning of `in`; 0 if it has not arrived whole.
std::size_t whole_answer(std::string_view in) {
  const auto end = in.find("\r\n\r\n");
  if (end == std::string_view::npos) return 0;
  constexpr std::string_view k_name = "Content-Length: ";
  std::size_t length = 0;
  if (const auto at = in.find(k_name); at < end) {
    std::from_chars(in.data() + at + k_name.size(), in.data() + end, length);
  }
  return in.size() >= end + 4 + length ? end + 4 + length : 0;
}

int status_in(std::string_view answer) {
  int status = 0;
  if (answer.size() > 12) std::from_chars(answer.data() + 9, answer.data() + 12, status);
  return status;
}

class Run {
 public:
  Run(std::uint16_t port, const std::vector<std::string>& requests, std::size_t connections)
      : requests_{requests}, epoll_{::epoll_create1(EPOLL_CLOEXEC)} {
    lines_.resize(std::min(connections, requests.size()));
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      lines_[i].fd = connect_to(port);
      if (!lines_[i].fd) throw std::runtime_error{"the relay takes no connection"};
      epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, lines_[i].fd.get(), &event);
    }
    load_.latencies.reserve(requests.size());
  }

  Load run() {
    const auto began = Steady::now();
    for (Line& line : lines_) begin(line);
    std::array<epoll_event, 64> events{};
    while (load_.latencies.size() < requests_.size()) {
      const int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), 30'000);
      if (n == 0) throw std::runtime_error{"the relay has not answered for 30 s"};
      for (int i = 0; i < n; ++i) {
        const auto index = events[static_cast<std::size_t>(i)].data.u64;
        Line& line = lines_[index];
        if (line.out != nullptr && line.sent < line.out->size()) push(line, index);
        pull(line);
      }
    }
    load_.took = std::chrono::duration_cast<microseconds>(Steady::now() - began);
    return std::move(load_);
  }

 private:
  void begin(Line& line) {
    if (next_ == requests_.size()) {
      line.out = nullptr;
      return;
    }
    line.out = &requests_[next_++];
    line.sent = 0;
    line.began = Steady::now();
    push(line, static_cast<std::size_t>(&line - lines_.data()));
  }

  void push(Line& line, std::size_t index) {
    while (line.sent < line.out->size()) {
      const ssize_t n = ::send(line.fd.get(), line.out->data() + line.sent,
                               line.out->size() - line.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) break;
      if (n <= 0) throw std::runtime_error{"the relay closed a connection"};
      line.sent += static_cast<std::size_t>(n);
    }
    const bool more = line.sent < line.out->size();
    if (more == line.blocked) return;
    line.blocked = more;
    epoll_event event{.events = static_cast<std::uint32_t>(more ? EPOLLIN | EPOLLOUT : EPOLLIN),
                      .data = {.u64 = index}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, line.fd.get(), &event);
  }

  void pull(Line& line) {
    std::array<char, 16384> chunk{};
    const ssize_t n = ::recv(line.fd.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) throw std::runtime_error{"the relay closed a connection"};
    line.in.append(chunk.data(), static_cast<std::size_t>(n));
    while (const std::size_t size = whole_answer(line.in)) {
      load_.latencies.push_back(
          std::chrono::duration_cast<microseconds>(Steady::now() - line.began));
      const int status = status_in(line.in);
      if (++load_.statuses[status] == 1 && load_.statuses.size() > 1) {
        load_.odd_answer = line.in.substr(0, size);
      }
      line.in.erase(0, size);
      begin(line);
    }
  }

  const std::vector<std::string>& requests_;
  base::Fd epoll_;
  std::vector<Line> lines_;
  std::size_t next_ = 0;
  Load load_;
};

}  // namespace

microseconds Load::percentile(double share) const {
  if (latencies.empty()) return {};
  std::vector<microseconds> sorted = latencies;
  std::ranges::sort(sorted);
  const auto at = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size(), static_cast<std::size_t>(std::max(at, 1.0))) - 1];
}

double Load::per_second() const {
  return static_cast<double>(latencies.size()) / (static_cast<double>(took.count()) / 1e6);
}

Load send_all(std::uint16_t port, const std::vector<std::string>& requests,
              std::size_t connections) {
  return Run{port, requests, connections}.run();
}

int status_of(std::uint16_t port, const std::string& request) {
  const base::Fd fd = connect_to(port);
  if (!fd || ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return 0;
  std::array<char, 4096> chunk{};
  const ssize_t n = ::recv(fd.get(), chunk.data(), chunk.size(), 0);
  return n <= 0 ? 0 : status_in({chunk.data(), static_cast<std::size_t>(n)});
}

}  // namespace crosscheck::bench
