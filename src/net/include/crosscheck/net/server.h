#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/net/forwarded.h"
#include "crosscheck/net/http.h"

namespace crosscheck::net {

// PEM files. The certificate's may hold the chain, its own first.
struct TlsFiles {
  std::string certificate;
  std::string key;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;                // 0: any free one
  std::optional<TlsFiles> tls;           // TLS 1.2 and 1.3; nothing: plain HTTP
  std::vector<Network> trusted_proxies;  // whose X-Forwarded-For and -Proto are believed
  // How large the body of a request may be, decided from its method and path once the headers are
  // read: a larger Content-Length is answered 413 before a byte of the body is read.
  std::function<std::size_t(const Request&)> body_limit;  // default: 1 MiB
  // What the bodies of all requests may hold in memory together, from the first byte until they are
  // answered: anybody may send them. Over it: 503, and the connection is closed. The last quarter
  // is for the first MiB of each, so that a few large ones do not keep the small ones out.
  std::size_t body_budget = std::size_t{256} << 20;
  std::size_t header_limit = 16 * 1024;              // over it: 431
  std::chrono::milliseconds header_timeout{10'000};  // from accept, later from the first byte
  std::chrono::milliseconds body_timeout{30'000};    // of each 4 MiB begun
  std::chrono::milliseconds write_timeout{30'000};   // likewise, of an answer
  std::chrono::milliseconds idle_timeout{60'000};    // between requests on one connection
  // More: the longest idle or half-open ones are closed. At most 3/4 of the process's descriptors.
  std::size_t max_connections = 4096;
  std::size_t io_threads = 1;
  std::size_t handler_threads = 8;  // handlers may block (on the store)
};

using Handler = std::function<Response(const Request&)>;

// An HTTP/1.1 server, in TLS or not. Thread-safe. Handlers run on threads of their own, several at
// once.
//
// What is refused never reaches the handler and is answered {"error":"<reason>"}: 400 what is not
// HTTP, whose body has two lengths, whose path, query or headers are not UTF-8 or whose path or
// query holds NUL; 413, 417, 431; 501 a transfer encoding other than chunked; 503 what there is no
// memory for. Upgrades are ignored, as HTTP allows.
class Server {
 public:
  // Listens before it returns. `environment` fault when the address cannot be bound, naming it;
  // `invalid_input` when certificate or key cannot be used, naming the file.
  // Exceptions from `handler` are answered 500 with no detail and logged. HEAD comes to it as GET
  // and is answered without the body. Connection, Content-Length and Date are the server's: a
  // handler's are dropped.
  [[nodiscard]] static base::Result<std::unique_ptr<Server>> start(ServerOptions options,
                                                                   Handler handler);
  virtual ~Server() = default;  // stops with no grace
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // Takes the files anew for connections made from now on; open ones keep what they have. What
  // cannot be used changes nothing. A server without TLS stays so.
  [[nodiscard]] virtual base::Result<void> reload_tls(const TlsFiles& files) = 0;
  // Stops accepting, closes idle connections, lets requests in progress finish for up to `grace`,
  // closes the rest, joins. A handler that runs cannot be cut off: it is waited for beyond `grace`,
  // and must end by itself. May be called again, and from any thread but a handler's.
  virtual void stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace crosscheck::net
