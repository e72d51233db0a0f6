#include "github_double.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

namespace crosscheck::bench {

namespace {

constexpr std::size_t k_read = std::size_t{64} << 10;

std::string with_length(std::string_view status, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "x-ratelimit-limit: 15000\r\nx-ratelimit-remaining: 14999\r\n\r\n{}",
      status, body.size(), body);
}

// The value of Content-Length in a head; 0 without one.
std::size_t length_of(std::string_view head) {
  constexpr std::string_view k_name = "\r\nContent-Length: ";
  const auto at = head.find(k_name);
  if (at == std::string_view::npos) return 0;
  std::size_t length = 0;
  std::from_chars(head.data() + at + k_name.size(), head.data() + head.size(), length);
  return length;
}

}  // namespace

struct GithubDouble::Connection {
  base::Fd fd;
  std::string in;
  std::size_t wanted = 0;  // bytes of the request whose head has arrived, 0: not yet
};

GithubDouble::GithubDouble(std::string jwks) : jwks_{std::move(jwks)} {
  listener_ = base::Fd{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_.get(), raw, size) != 0 || ::listen(listener_.get(), 512) != 0 ||
      ::getsockname(listener_.get(), raw, &size) != 0) {
    throw std::runtime_error{"the double of GitHub cannot listen"};
  }
  port_ = ntohs(address.sin_port);
  epoll_ = base::Fd{::epoll_create1(EPOLL_CLOEXEC)};
  wake_ = base::Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  for (const int fd : {listener_.get(), wake_.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  thread_ = std::thread{[this] { run(); }};
}

GithubDouble::~GithubDouble() {
  stopping_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
  thread_.join();
}

std::string GithubDouble::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

GithubDouble::Seen GithubDouble::seen(const std::string& delivery_id) {
  const std::lock_guard lock{mutex_};
  const auto found = deliveries_.find(delivery_id);
  return found == deliveries_.end() ? Seen{} : found->second;
}

bool GithubDouble::wait_for(const std::string& delivery_id, int dispatches,
                            std::chrono::milliseconds timeout) {
  std::unique_lock lock{mutex_};
  return arrived_.wait_for(lock, timeout,
                           [&] { return deliveries_[delivery_id].dispatches >= dispatches; });
}

bool GithubDouble::wait_for_total(std::int64_t dispatches, std::chrono::milliseconds timeout) {
  std::unique_lock lock{mutex_};
  return arrived_.wait_for(lock, timeout, [&] { return total_ >= dispatches; });
}

std::int64_t GithubDouble::total() {
  const std::lock_guard lock{mutex_};
  return total_;
}

std::chrono::microseconds GithubDouble::cpu() {
  clockid_t clock{};
  timespec used{};
  if (::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0) return {};
  ::clock_gettime(clock, &used);
  return std::chrono::seconds{used.tv_sec} + std::chrono::duration_cast<std::chrono::microseconds>(
                                                 std::chrono::nanoseconds{used.tv_nsec});
}

void GithubDouble::count(std::string_view body) {
  constexpr std::string_view k_name = "\"delivery_id\":\"";
  const auto at = body.substr(0, 1024).find(k_name);
  if (at == std::string_view::npos) return;
  body.remove_prefix(at + k_name.size());
  const std::lock_guard lock{mutex_};
  Seen& seen = deliveries_[std::string{body.substr(0, body.find('"'))}];
  ++seen.dispatches;
  seen.last = Steady::now();
  ++total_;
  arrived_.notify_all();
}

std::string GithubDouble::answer(std::string_view method, std::string_view path,
                                 std::string_view body) {
  if (path == "/jwks") return with_length("200 OK", jwks_);
  if (method == "POST" && path.ends_with("/dispatches")) {
    count(body);
    return "HTTP/1.1 204 No Content\r\n\r\n";
  }
  if (path.ends_with("/installation")) {
    // A number for each repository, so that each needs a token of its own, as in the field.
    return with_length("200 OK",
                       fmt::format(R"({{"id":{}}})", std::hash<std::string_view>{}(path) >> 12U));
  }
  if (path.ends_with("/access_tokens")) {
    const auto until = std::chrono::time_point_cast<std::chrono::seconds>(
        std::chrono::system_clock::now() + std::chrono::hours{1});
    std::array<char, 32> text{};
    const std::time_t at = std::chrono::system_clock::to_time_t(until);
    std::tm parts{};
    ::gmtime_r(&at, &parts);
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return with_length("201 Created",
                       fmt::format(R"({{"token":"ghs_bench","expires_at":"{}"}})", text.data()));
  }
  if (method == "POST" && path.ends_with("/check-runs")) {
    return with_length("201 Created", R"({"id":1})");
  }
  return with_length("404 Not Found", R"({"message":"Not Found"})");
}

void GithubDouble::run() {
  std::unordered_map<int, std::unique_ptr<Connection>> connections;
  struct Owed {
    int fd;
    std::string text;
  };
  std::multimap<Steady::time_point, Owed> owed;
  std::vector<char> chunk(k_read);
  // An answer is a few hundred bytes: a socket that cannot take it is that of a dead peer.
  const auto send = [&](int fd, std::string_view text) {
    if (connections.contains(fd)) {
      static_cast<void>(!::send(fd, text.data(), text.size(), MSG_NOSIGNAL));
    }
  };
  const auto forget = [&](int fd) {
    connections.erase(fd);
    std::erase_if(owed, [fd](const auto& entry) { return entry.second.fd == fd; });
  };
  const auto take = [&](Connection& connection) {
    while (true) {
      if (connection.wanted == 0) {
        const auto end = connection.in.find("\r\n\r\n");
        if (end == std::string::npos) return;
        connection.wanted = end + 4 + length_of(std::string_view{connection.in}.substr(0, end + 2));
      }
      if (connection.in.size() < connection.wanted) return;
      const std::string_view whole{connection.in.data(), connection.wanted};
      const std::string_view line = whole.substr(0, whole.find("\r\n"));
      const auto space = line.find(' ');
      const std::string_view path = line.substr(space + 1, line.find(' ', space + 1) - space - 1);
      std::string text =
          answer(line.substr(0, space), path, whole.substr(whole.find("\r\n\r\n") + 4));
      const std::chrono::milliseconds delay{delay_ms_};
      if (delay.count() == 0) {
        send(connection.fd.get(), text);
      } else {
        owed.emplace(Steady::now() + delay, Owed{connection.fd.get(), std::move(text)});
      }
      connection.in.erase(0, connection.wanted);
      connection.wanted = 0;
    }
  };

  std::array<epoll_event, 64> events{};
  while (!stopping_) {
    int wait_ms = -1;
    if (!owed.empty()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(owed.begin()->first - Steady::now());
      wait_ms = static_cast<int>(std::max<std::int64_t>(0, left.count()));
    }
    const int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == wake_.get()) continue;
      if (fd == listener_.get()) {
        base::Fd peer{::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
        if (!peer) continue;
        const int one = 1;
        ::setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        const int number = peer.get();
        epoll_event event{.events = EPOLLIN, .data = {.fd = number}};
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, number, &event);
        auto connection = std::make_unique<Connection>();
        connection->fd = std::move(peer);
        connections.emplace(number, std::move(connection));
        continue;
      }
      const auto found = connections.find(fd);
      if (found == connections.end()) continue;
      const ssize_t got = ::recv(fd, chunk.data(), chunk.size(), 0);
      if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) forget(fd);
        continue;
      }
      found->second->in.append(chunk.data(), static_cast<std::size_t>(got));
      take(*found->second);
    }
    const auto now = Steady::now();
    while (!owed.empty() && owed.begin()->first <= now) {
      send(owed.begin()->second.fd, owed.begin()->second.text);
      owed.erase(owed.begin());
    }
  }
}

}  // namespace crosscheck::bench
