#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/net/http.h"

namespace crosscheck::net {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one
  // How large the body of a request may be, decided from its method and path once the headers are
  // read: a larger Content-Length is answered 413 before a byte of the body is read.
  std::function<std::size_t(const Request&)> body_limit;  // default: 1 MiB
  std::size_t header_limit = 16 * 1024;                   // over it: 431
  std::chrono::milliseconds header_timeout{10'000};       // from accept or end of the previous answer
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds write_timeout{30'000};
  std::chrono::milliseconds idle_timeout{60'000};  // keep-alive
  std::size_t max_connections = 4096;  // more: the longest idle or half-open ones are closed
  std::size_t io_threads = 1;
  std::size_t handler_threads = 8;  // handlers may block (on the store)
};

using Handler = std::function<Response(const Request&)>;

// An HTTP/1.1 server. Thread-safe.
class Server {
 public:
  // Listens before it returns. `environment` fault when the address cannot be bound, naming it.
  // Exceptions from `handler` are answered 500 with no detail and logged.
  // HEAD is answered as GET without the body. Requests that are not HTTP get 400.
  [[nodiscard]] static base::Result<std::unique_ptr<Server>> start(ServerOptions options,
                                                                   Handler handler);
  virtual ~Server() = default;  // stops with no grace
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // Stops accepting, lets requests in progress finish for up to `grace`, closes the rest, joins.
  virtual void stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace crosscheck::net
