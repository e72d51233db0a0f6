#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/process.h"
#include "crosscheck/net/http.h"

// The other end of a connection, byte by byte: what no proper client would send or do.
namespace crosscheck::net::test {

constexpr int k_patience_s = 30;  // far beyond what any step takes

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

struct Answer {
  int status = 0;
  Headers headers;
  std::string body;
};

class Peer {
 public:
  explicit Peer(base::Fd fd) : fd_{std::move(fd)} {
    const timeval patience{k_patience_s, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  // Nothing if refused.
  static std::optional<Peer> connect(std::uint16_t port) {
    base::Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const sockaddr_in address = loopback(port);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(fd.get(), generic, sizeof address) != 0) return std::nullopt;
    return Peer{std::move(fd)};
  }

  // False once the other side is gone.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  void end_of_sending() { ::shutdown(fd_.get(), SHUT_WR); }
  // Drops the connection with a reset.
  void reset() {
    const linger now{1, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.reset();
  }

  bool is_readable(int within_ms) {
    pollfd poll_fd{fd_.get(), POLLIN, 0};
    return ::poll(&poll_fd, 1, within_ms) == 1;
  }

  // Up to and with `mark`; less if the connection ends.
  std::string read_through(std::string_view mark) {
    std::size_t at = 0;
    while ((at = buffer_.find(mark)) == std::string::npos) {
      if (!fill()) return std::exchange(buffer_, {});
    }
    return take(at + mark.size());
  }

  std::string read(std::size_t bytes) {
    while (buffer_.size() < bytes && fill()) {
    }
    return take(std::min(bytes, buffer_.size()));
  }

  // Everything until the other side closes. Nothing if it does not.
  std::optional<std::string> read_to_end() {
    while (fill()) {
    }
    if (!ended_) return std::nullopt;
    return std::exchange(buffer_, {});
  }
  bool is_closed_by_other() { return read_to_end() == ""; }

  // Status 0 if there was none.
  Answer read_answer(bool to_head = false) {
    Answer answer;
    std::string head = read_through("\r\n\r\n");
    if (!head.starts_with("HTTP/1.1 ") || !head.ends_with("\r\n\r\n")) return answer;
    answer.status = std::stoi(head.substr(9, 3));
    std::string_view rest = head;
    rest.remove_prefix(rest.find("\r\n") + 2);
    while (!rest.starts_with("\r\n")) {
      const auto colon = rest.find(": ");
      const auto end = rest.find("\r\n");
      answer.headers.add(std::string{rest.substr(0, colon)},
                         std::string{rest.substr(colon + 2, end - colon - 2)});
      rest.remove_prefix(end + 2);
    }
    const auto length = answer.headers.get("Content-Length");
    if (length && !to_head) answer.body = read(std::stoul(std::string{*length}));
    return answer;
  }

 private:
  std::string take(std::size_t bytes) {
    std::string taken = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return taken;
  }

  bool fill() {
    char bytes[16384];
    const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (n > 0) buffer_.append(bytes, static_cast<std::size_t>(n));
    ended_ = n == 0 || (n < 0 && errno == ECONNRESET);
    return n > 0;
  }

  base::Fd fd_;
  std::string buffer_;
  bool ended_ = false;
};

// A server that does only what the test says.
class Listener {
 public:
  Listener() : fd_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    sockaddr_in address = loopback(0);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    is_open_ = ::bind(fd_.get(), generic, size) == 0 && ::listen(fd_.get(), 64) == 0 &&
               ::getsockname(fd_.get(), generic, &size) == 0;
    port_ = ntohs(address.sin_port);
  }
  bool is_open() const { return is_open_; }
  std::uint16_t port() const { return port_; }
  bool is_pending(int within_ms) {
    pollfd poll_fd{fd_.get(), POLLIN, 0};
    return ::poll(&poll_fd, 1, within_ms) == 1;
  }
  std::optional<Peer> accept() {
    if (!is_pending(k_patience_s * 1000)) return std::nullopt;
    return Peer{base::Fd{::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)}};
  }

 private:
  base::Fd fd_;
  bool is_open_ = false;
  std::uint16_t port_ = 0;
};

}  // namespace crosscheck::net::test
