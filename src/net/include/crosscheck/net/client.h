#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/net/http.h"

namespace crosscheck::net {

struct ClientRequest {
  std::string method = "GET";
  std::string url;  // http or https; user info is refused
  Headers headers;
  std::string body;
  std::chrono::milliseconds timeout{10'000};  // the whole exchange
  std::size_t body_limit = 8 * 1024 * 1024;   // of the answer
};

// What went wrong when there is no answer: whether the request may have reached the other side
// decides whether it may be sent again.
struct ClientError {
  base::Error error;        // names the host, never a query or header
  bool maybe_sent = false;  // the connection was made and bytes may have gone out
};
using ClientResult = base::Result<Response, ClientError>;

// HTTP/1.1 and HTTP/2 over libcurl: one owning thread, connections pooled. Redirects are not
// followed. Thread-safe.
class Client {
 public:
  struct Options {
    std::string user_agent = "crosscheck";
    std::string ca_file;  // empty: the system's
    long max_connections_per_host = 16;
  };
  [[nodiscard]] static std::unique_ptr<Client> create(Options options);
  [[nodiscard]] static std::unique_ptr<Client> create() { return create(Options{}); }
  // Requests still open fail with `unavailable`.
  virtual ~Client() = default;

  // `done` is called exactly once, on the owning thread: it must not block.
  virtual void send(ClientRequest request, std::function<void(ClientResult)> done) = 0;
  // Waits. Not from within a `done`.
  [[nodiscard]] ClientResult send(ClientRequest request);
};

}  // namespace crosscheck::net
