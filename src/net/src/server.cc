#include "crosscheck/net/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <condition_variable>
#include <ctime>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "crosscheck/base/log.h"
#include "crosscheck/base/threads.h"
#include "head.h"

namespace crosscheck::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace log = base::log;
using asio::ip::tcp;
using beast::error_code;
using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t k_default_body_limit = std::size_t{1} << 20;
constexpr std::size_t k_first_read = 1024;  // an idle connection holds no more than this
constexpr std::size_t k_read = std::size_t{64} << 10;
constexpr std::size_t k_slice = std::size_t{4}
                                << 20;  // a body's deadline is renewed after this much
constexpr milliseconds k_drain_timeout{2'000};
constexpr milliseconds k_accept_backoff{50};

// What a connection is doing. The order is that of the array in Connections.
enum class Phase : std::uint8_t { waiting, head, body, handling, answering, draining, doomed };
constexpr std::size_t k_phases = 7;

using TlsContext = std::shared_ptr<asio::ssl::context>;

// A connection's bytes, in TLS or not: what reads and writes need not know which.
class Stream {
 public:
  using executor_type = beast::tcp_stream::executor_type;
  using next_layer_type = beast::tcp_stream;

  Stream(tcp::socket socket, TlsContext context)
      : tcp_{std::move(socket)}, context_{std::move(context)} {
    if (context_) tls_.emplace(tcp_, *context_);
  }
  executor_type get_executor() { return tcp_.get_executor(); }
  next_layer_type& next_layer() { return tcp_; }
  [[nodiscard]] const next_layer_type& next_layer() const { return tcp_; }
  // Nothing: plain.
  std::optional<asio::ssl::stream<beast::tcp_stream&>>& tls() { return tls_; }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return asio::async_initiate<Token, void(error_code, std::size_t)>(
        [this](auto handler, const Buffers& into) {
          if (tls_)
            tls_->async_read_some(into, std::move(handler));
          else
            tcp_.async_read_some(into, std::move(handler));
        },
        token, buffers);
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return asio::async_initiate<Token, void(error_code, std::size_t)>(
        [this](auto handler, const Buffers& from) {
          if (tls_)
            tls_->async_write_some(from, std::move(handler));
          else
            tcp_.async_write_some(from, std::move(handler));
        },
        token, buffers);
  }

 private:
  beast::tcp_stream tcp_;
  const TlsContext context_;  // outlives the stream that uses it
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, TlsContext context, std::size_t buffer_limit)
      : stream{std::move(socket), std::move(context)}, buffer{buffer_limit} {}

  // From any thread.
  void close_soon() {
    asio::post(stream.get_executor(),
               [self = shared_from_this()] { beast::get_lowest_layer(self->stream).close(); });
  }

  Stream stream;  // used on its strand only, as is `buffer`
  beast::flat_buffer buffer;

 private:
  friend class Connections;
  Phase phase_ = Phase::waiting;  // these are guarded by Connections' mutex
  SteadyClock::time_point since_;
  std::list<Connection*>::iterator place_;
};

// Who is connected and what each is doing, oldest first: whom to let go when there are too many,
// and whom a stop has to wait for. Thread-safe.
class Connections {
 public:
  explicit Connections(std::size_t limit) : limit_{limit} {}

  // False: stopping, or all are at work.
  bool add(Connection& connection) {
    const std::scoped_lock lock{mutex_};
    if (stopping_ || (total_ - in(Phase::doomed).size() >= limit_ && !let_one_go())) return false;
    connection.since_ = SteadyClock::now();
    connection.place_ = in(Phase::waiting).insert(in(Phase::waiting).end(), &connection);
    ++total_;
    return true;
  }

  // False: the connection is to be closed without further ado.
  bool enter(Connection& connection, Phase phase) {
    const std::scoped_lock lock{mutex_};
    if (connection.phase_ == Phase::doomed || (stopping_ && phase == Phase::waiting)) return false;
    move(connection, phase);
    return true;
  }

  void remove(Connection& connection) {
    const std::scoped_lock lock{mutex_};
    in(connection.phase_).erase(connection.place_);
    if (--total_ == 0) empty_.notify_all();
  }

  bool let_oldest_go() {
    const std::scoped_lock lock{mutex_};
    return let_one_go();
  }

  bool stopping() {
    const std::scoped_lock lock{mutex_};
    return stopping_;
  }

  // From now on none is added, and those that wait for a request are closed.
  void begin_stop() {
    const std::scoped_lock lock{mutex_};
    stopping_ = true;
    doom_all(Phase::waiting);
  }

  void close_all() {
    const std::scoped_lock lock{mutex_};
    for (std::size_t phase = 0; phase < k_phases; ++phase) {
      if (static_cast<Phase>(phase) != Phase::doomed) doom_all(static_cast<Phase>(phase));
    }
  }

  void wait_until_empty(milliseconds at_most) {
    std::unique_lock lock{mutex_};
    empty_.wait_for(lock, at_most, [this] { return total_ == 0; });
  }

 private:
  std::list<Connection*>& in(Phase phase) { return lists_[static_cast<std::size_t>(phase)]; }

  void move(Connection& connection, Phase phase) {
    std::list<Connection*>& to = in(phase);
    to.splice(to.end(), in(connection.phase_), connection.place_);
    connection.phase_ = phase;
    connection.since_ = SteadyClock::now();
  }

  void doom(Connection& connection) {
    move(connection, Phase::doomed);
    connection.close_soon();
  }

  void doom_all(Phase phase) {
    while (!in(phase).empty()) doom(*in(phase).front());
  }

  // Those who owe us a request first, then those who are slow with a body or an answer.
  bool let_one_go() {
    Connection* oldest = nullptr;
    for (const Phase phase : {Phase::draining, Phase::waiting, Phase::head}) {
      if (in(phase).empty()) continue;
      Connection* const first = in(phase).front();
      if (oldest == nullptr || first->since_ < oldest->since_) oldest = first;
    }
    for (const Phase phase : {Phase::body, Phase::answering}) {
      if (oldest == nullptr && !in(phase).empty()) oldest = in(phase).front();
    }
    if (oldest == nullptr) return false;
    doom(*oldest);
    return true;
  }

  std::mutex mutex_;
  std::condition_variable empty_;
  const std::size_t limit_;
  bool stopping_ = false;
  std::size_t total_ = 0;
  std::array<std::list<Connection*>, k_phases> lists_;
};

// What the bodies of all connections hold. Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(std::size_t limit) : limit_{limit} {}

  // One body's part; given back when it goes.
  class Share {
   public:
    explicit Share(BodyBudget& budget) : budget_{budget} {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() { release(); }
    // False: there is no room for that many bytes.
    bool grow_to(std::size_t bytes) {
      if (bytes <= bytes_) return true;
      if (!budget_.take(bytes - bytes_, bytes > k_small)) return false;
      bytes_ = bytes;
      return true;
    }
    void release() { budget_.used_ -= std::exchange(bytes_, 0); }

   private:
    static constexpr std::size_t k_small = std::size_t{1} << 20;
    BodyBudget& budget_;
    std::size_t bytes_ = 0;
  };

 private:
  bool take(std::size_t bytes, bool is_large) {
    const std::size_t limit = is_large ? limit_ - limit_ / 4 : limit_;
    std::size_t used = used_;
    do {
      if (bytes > limit || used > limit - bytes) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
  }

  const std::size_t limit_;
  std::atomic<std::size_t> used_ = 0;
};

Response error_response(int status, std::string_view reason) {
  return Response::json(status, fmt::format(R"({{"error":"{}"}})", reason));
}

base::Result<TlsContext> make_context(const TlsFiles& files) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code error;
  const auto failed = [&error](std::string_view setting, const std::string& file) {
    return base::fail(base::Fault::invalid_input,
                      fmt::format("{}: {}: {}", setting, file, error.message()),
                      "give PEM files that belong together and that this user may read");
  };
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  context->set_options(asio::ssl::context::single_dh_use, error);
  if (!error) context->use_certificate_chain_file(files.certificate, error);
  if (error) return failed("tls_certificate", files.certificate);
  context->use_private_key_file(files.key, asio::ssl::context::pem, error);
  if (error) return failed("tls_key", files.key);
  return context;
}

std::string http_date(std::time_t now) {
  static constexpr std::array k_days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array k_months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm t{};
  gmtime_r(&now, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     k_days[static_cast<std::size_t>(t.tm_wday)], t.tm_mday,
                     k_months[static_cast<std::size_t>(t.tm_mon)], 1900 + t.tm_year, t.tm_hour,
                     t.tm_min, t.tm_sec);
}

// Whether a handler's answer can be put on the wire: no status of our own, no header that begins
// another.
bool is_sendable(const Response& response) {
  static constexpr std::string_view k_breaks{"\r\n\0", 3};
  return response.status >= 200 && response.status <= 599 &&
         std::ranges::all_of(response.headers.fields(), [](const auto& field) {
           return !field.first.empty() && field.first.find_first_of(": \t") == std::string::npos &&
                  field.first.find_first_of(k_breaks) == std::string::npos &&
                  field.second.find_first_of(k_breaks) == std::string::npos;
         });
}

bool is_ours(std::string_view name) {
  return std::ranges::any_of(
      std::array{"Connection", "Content-Length", "Date", "Keep-Alive", "Transfer-Encoding"},
      [&](const char* ours) { return beast::iequals(name, ours); });
}

bool has_no_body(int status) { return status == 204 || status == 304; }

std::string head_of(const Response& response, bool keep_alive) {
  const auto reason =
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                  std::string_view{reason.data(), reason.size()}, http_date(std::time(nullptr)));
  for (const auto& [name, value] : response.headers.fields()) {
    if (!is_ours(name)) head.append(name).append(": ").append(value).append("\r\n");
  }
  if (!has_no_body(response.status)) {
    head += fmt::format("Content-Length: {}\r\n", response.body.size());
  }
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

// Descriptors must be left for the store and for requests of our own.
std::size_t connection_limit(std::size_t wanted) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return wanted;
  const std::size_t affordable = std::max<std::size_t>(8, files.rlim_cur / 4 * 3);
  if (affordable < wanted) {
    log::debug("connections_limited",
               {{"wanted", wanted}, {"limit", affordable}, {"nofile", files.rlim_cur}});
  }
  return std::min(wanted, affordable);
}

class BeastServer final : public Server {
 public:
  BeastServer(ServerOptions options, Handler handler)
      : options_{std::move(options)},
        handler_{std::move(handler)},
        connections_{connection_limit(options_.max_connections)},
        body_budget_{options_.body_budget} {
    if (!options_.body_limit)
      options_.body_limit = [](const Request&) { return k_default_body_limit; };
  }

  BeastServer(const BeastServer&) = delete;
  BeastServer& operator=(const BeastServer&) = delete;
  ~BeastServer() override { stop(milliseconds{0}); }

  base::Result<void> listen() {
    const std::string place = options_.host + ':' + std::to_string(options_.port);
    error_code error;
    tcp::resolver resolver{io_};
    const auto found =
        resolver.resolve(options_.host, std::to_string(options_.port),
                         tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error) {
      return base::fail(base::Fault::environment,
                        fmt::format("cannot listen on {}: {}", place, error.message()),
                        "give an address or a name of this machine, such as 127.0.0.1");
    }
    for (const auto& entry : found) {
      error = bind(entry.endpoint());
      if (!error) return {};
    }
    return base::fail(base::Fault::environment,
                      fmt::format("cannot listen on {}: {}", place, error.message()),
                      remedy(error));
  }

  [[nodiscard]] const std::optional<TlsFiles>& tls() const { return options_.tls; }

  base::Result<void> reload_tls(const TlsFiles& files) override {
    if (!options_.tls) return {};
    auto context = make_context(files);
    if (!context) return tl::unexpected(context.error());
    const std::scoped_lock lock{tls_mutex_};
    tls_ = std::move(*context);
    return {};
  }

  void run() {
    const base::SignalsBlocked blocked;
    handlers_.emplace(std::max<std::size_t>(1, options_.handler_threads));
    asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached);
    for (std::size_t i = 0; i < std::max<std::size_t>(1, options_.io_threads); ++i) {
      threads_.emplace_back([this] { io_.run(); });
    }
  }

  std::uint16_t port() const override { return port_; }

  void stop(milliseconds grace) override {
    const std::scoped_lock lock{stop_mutex_};
    if (stopped_) return;
    stopped_ = true;
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      backoff_.cancel();
    });
    connections_.begin_stop();
    connections_.wait_until_empty(grace);
    abandoned_ = true;
    connections_.close_all();
    if (handlers_) handlers_->join();
    work_.reset();
    if (threads_.empty()) io_.run();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  TlsContext tls_context() {
    const std::scoped_lock lock{tls_mutex_};
    return tls_;
  }

  error_code bind(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address{true}, error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error) {
      error_code ignored;
      acceptor_.close(ignored);
    }
    return error;
  }

  static std::string remedy(const error_code& error) {
    if (error == asio::error::address_in_use)
      return "end what listens there, or choose another port";
    if (error == asio::error::access_denied) return "choose a port above 1023";
    return "give an address of this machine, such as 127.0.0.1";
  }

  asio::awaitable<void> accept() {
    std::optional<SteadyClock::time_point> logged;
    while (acceptor_.is_open()) {
      const asio::any_io_executor strand = asio::make_strand(io_);
      error_code error;
      tcp::socket socket =
          co_await acceptor_.async_accept(strand, asio::redirect_error(asio::use_awaitable, error));
      if (!error) {
        open(std::move(socket));
        continue;
      }
      if (!acceptor_.is_open()) break;
      if (error == asio::error::connection_aborted) continue;
      // Mostly out of descriptors.
      const auto now = SteadyClock::now();
      if (!logged || now - *logged > std::chrono::minutes{1}) {
        log::error("accept_failed", {{"port", port_}, {"reason", error.message()}});
        logged = now;
      }
      // The error comes with nobody at the door, too: let one go only for somebody else.
      co_await acceptor_.async_wait(tcp::acceptor::wait_read,
                                    asio::redirect_error(asio::use_awaitable, error));
      connections_.let_oldest_go();
      backoff_.expires_after(k_accept_backoff);
      co_await backoff_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }

  void open(tcp::socket socket) {
    auto connection = std::make_shared<Connection>(std::move(socket), tls_context(),
                                                   options_.header_limit + k_read);
    if (!connections_.add(*connection)) return;
    const auto executor = connection->stream.get_executor();
    asio::co_spawn(executor, serve(std::move(connection)), asio::detached);
  }

  asio::awaitable<void> serve(std::shared_ptr<Connection> connection) {
    try {
      co_await converse(*connection);
    } catch (const std::exception& e) {
      log::error("connection_failed", {{"reason", e.what()}});
    }
    beast::get_lowest_layer(connection->stream).close();
    connections_.remove(*connection);
  }

  // One request after the other, until either side has had enough.
  asio::awaitable<void> converse(Connection& connection) {
    error_code error;
    auto& transport = beast::get_lowest_layer(connection.stream);
    transport.socket().set_option(tcp::no_delay{true}, error);
    const auto peer = transport.socket().remote_endpoint(error);
    const std::string remote = error ? std::string{} : peer.address().to_string();
    transport.expires_after(options_.header_timeout);
    if (auto& tls = connection.stream.tls()) {
      co_await tls->async_handshake(asio::ssl::stream_base::server,
                                    asio::redirect_error(asio::use_awaitable, error));
      if (error) {
        log::debug("tls_refused", {{"remote", remote}, {"reason", error.message()}});
        co_return;
      }
      transport.expires_after(options_.header_timeout);
    }
    bool go_on = true;
    while (go_on) {
      if (!co_await wait_for_request(connection)) co_return;
      go_on = co_await exchange(connection, remote);
      transport.expires_after(options_.idle_timeout);
      if (connection.buffer.size() == 0) connection.buffer.shrink_to_fit();
    }
    co_await say_goodbye(connection);
  }

  // So that the peer knows that nothing is missing.
  static asio::awaitable<void> say_goodbye(Connection& connection) {
    auto& tls = connection.stream.tls();
    if (!tls || !beast::get_lowest_layer(connection.stream).socket().is_open()) co_return;
    error_code ignored;
    beast::get_lowest_layer(connection.stream).expires_after(k_drain_timeout);
    co_await tls->async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
  }

  // The deadline has been set: after accept it is that of the headers, later that of idleness.
  asio::awaitable<bool> wait_for_request(Connection& connection) {
    if (!connections_.enter(connection, Phase::waiting)) co_return false;
    if (connection.buffer.size() > 0) co_return true;
    error_code error;
    const std::size_t n = co_await connection.stream.async_read_some(
        connection.buffer.prepare(k_first_read), asio::redirect_error(asio::use_awaitable, error));
    connection.buffer.commit(n);
    co_return !error;
  }

  // Reads one request and answers it. Whether another may follow on this connection.
  asio::awaitable<bool> exchange(Connection& connection, const std::string& remote) {
    if (!connections_.enter(connection, Phase::head)) co_return false;
    auto& transport = beast::get_lowest_layer(connection.stream);
    error_code error;
    http::request_parser<http::string_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(
        std::min<std::size_t>(options_.header_limit, std::numeric_limits<std::uint32_t>::max())));
    parser.body_limit(boost::none);
    transport.expires_after(options_.header_timeout);
    co_await http::async_read_header(connection.stream, connection.buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
    if (error == http::error::buffer_overflow) error = http::error::header_limit;
    if (error) co_return co_await give_up(connection, error);
    base::Result<Head, Refusal> head = read_head(parser.get());
    if (!head) co_return co_await refuse(connection, head.error());
    Request& request = head->request;
    request.remote = remote;
    if (connection.stream.tls()) request.scheme = "https";
    apply_forwarded(request, options_.trusted_proxies);

    const std::optional<std::size_t> limit = body_limit(request);
    if (!limit) co_return co_await refuse(connection, Refusal{500, "internal"});
    if (!head->chunked && parser.content_length().value_or(0) > *limit) {
      co_return co_await refuse(connection, Refusal{413, "body_too_large"});
    }
    parser.body_limit(*limit);
    BodyBudget::Share share{body_budget_};
    if (!parser.is_done()) {
      if (!connections_.enter(connection, Phase::body)) co_return false;
      if (head->expects_continue && connection.buffer.size() == 0) {
        static constexpr std::string_view k_continue = "HTTP/1.1 100 Continue\r\n\r\n";
        transport.expires_after(options_.write_timeout);
        co_await asio::async_write(connection.stream,
                                   asio::buffer(k_continue.data(), k_continue.size()),
                                   asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return false;
      }
      connection.buffer.reserve(std::max(k_read, connection.buffer.size()));
      std::size_t arrived = k_slice;
      while (!parser.is_done()) {
        if (arrived >= k_slice) {
          arrived = 0;
          transport.expires_after(options_.body_timeout);
        }
        arrived += co_await http::async_read_some(connection.stream, connection.buffer, parser,
                                                  asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return co_await give_up(connection, error);
        // Of a body whose length was told the room is reserved but not touched before it is filled.
        const std::string& body = parser.get().body();
        if (!share.grow_to(head->chunked ? body.capacity() : body.size())) {
          log::warning("no_room_for_body",
                       {{"path", request.path}, {"remote", remote}, {"bytes", body.size()}});
          parser.get().body() = {};
          share.release();
          co_return co_await refuse(connection, Refusal{503, "busy"});
        }
      }
      request.body = std::move(parser.get().body());
    }

    if (!connections_.enter(connection, Phase::handling)) co_return false;
    transport.expires_never();
    const Response response = co_await handle(request);
    request.body = {};
    share.release();
    const bool keep_alive = parser.keep_alive() && !connections_.stopping();
    if (!co_await write(connection, response, head->head_only, keep_alive)) co_return false;
    if (!keep_alive && connection.buffer.size() > 0) co_await drain(connection);
    co_return keep_alive;
  }

  // Answers bytes that are no request; a peer who went away or is too slow gets no answer.
  asio::awaitable<bool> give_up(Connection& connection, error_code error) {
    static const auto& k_http = http::make_error_code(http::error::end_of_stream).category();
    const bool is_malformed = error.category() == k_http && error != http::error::end_of_stream &&
                              error != http::error::partial_message;
    if (!is_malformed) co_return false;
    co_return co_await refuse(connection, refusal_of(error));
  }

  asio::awaitable<bool> refuse(Connection& connection, Refusal refusal) {
    Response response = error_response(refusal.status, refusal.reason);
    if (refusal.status == 503) response.headers.set("Retry-After", "5");
    if (co_await write(connection, response, false, false)) co_await drain(connection);
    co_return false;
  }

  asio::awaitable<bool> write(Connection& connection, const Response& response, bool head_only,
                              bool keep_alive) {
    if (!connections_.enter(connection, Phase::answering)) co_return false;
    const std::string head = head_of(response, keep_alive);
    std::string_view rest = response.body;
    if (head_only || has_no_body(response.status)) rest = {};
    std::string_view first = head;
    error_code error;
    do {
      const std::string_view slice = rest.substr(0, k_slice);
      rest.remove_prefix(slice.size());
      const std::array<asio::const_buffer, 2> buffers{asio::buffer(first.data(), first.size()),
                                                      asio::buffer(slice.data(), slice.size())};
      first = {};
      beast::get_lowest_layer(connection.stream).expires_after(options_.write_timeout);
      co_await asio::async_write(connection.stream, buffers,
                                 asio::redirect_error(asio::use_awaitable, error));
    } while (!error && !rest.empty());
    co_return !error;
  }

  // Closing a socket with unread bytes resets it, and the peer may lose the answer: read what was
  // still under way first.
  asio::awaitable<void> drain(Connection& connection) {
    if (!connections_.enter(connection, Phase::draining)) co_return;
    auto& transport = beast::get_lowest_layer(connection.stream);
    error_code error;
    transport.expires_after(k_drain_timeout);
    if (!connection.stream.tls()) transport.socket().shutdown(tcp::socket::shutdown_send, error);
    while (!error) {
      connection.buffer.clear();
      co_await connection.stream.async_read_some(connection.buffer.prepare(k_read),
                                                 asio::redirect_error(asio::use_awaitable, error));
    }
  }

  std::optional<std::size_t> body_limit(const Request& request) {
    try {
      return options_.body_limit(request);
    } catch (const std::exception& e) {
      log::error("body_limit_failed", {{"path", request.path}, {"reason", e.what()}});
      return std::nullopt;
    }
  }

  // On a handler thread; the coroutine, which owns `request`, sleeps meanwhile.
  asio::awaitable<Response> handle(const Request& request) {
    Response response;
    auto initiate = [this, &request, &response](auto resume) {
      asio::post(*handlers_, [this, &request, &response, resume = std::move(resume)]() mutable {
        response = answer(request);
        const auto executor = asio::get_associated_executor(resume);
        asio::post(executor, std::move(resume));
      });
    };
    co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(initiate,
                                                                          asio::use_awaitable);
    co_return response;
  }

  Response answer(const Request& request) {
    if (abandoned_) return error_response(503, "stopping");
    std::string reason = "a header or status that cannot be sent";
    try {
      Response response = handler_(request);
      if (is_sendable(response)) return response;
    } catch (const std::exception& e) {
      reason = e.what();
    } catch (...) {
      reason = "not a std::exception";
    }
    log::error("handler_failed",
               {{"method", request.method}, {"path", request.path}, {"reason", reason}});
    return error_response(500, "internal");
  }

  ServerOptions options_;
  const Handler handler_;
  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_{
      io_.get_executor()};
  tcp::acceptor acceptor_{asio::make_strand(io_)};
  asio::steady_timer backoff_{acceptor_.get_executor()};
  std::uint16_t port_ = 0;
  Connections connections_;
  BodyBudget body_budget_;
  std::atomic<bool> abandoned_ = false;
  std::optional<asio::thread_pool> handlers_;
  std::vector<std::thread> threads_;
  std::mutex tls_mutex_;
  TlsContext tls_;  // null: plain
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

}  // namespace

base::Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler handler) {
  try {
    auto server = std::make_unique<BeastServer>(std::move(options), std::move(handler));
    if (server->tls()) {
      if (auto loaded = server->reload_tls(*server->tls()); !loaded)
        return tl::unexpected(loaded.error());
    }
    if (base::Result<void> listening = server->listen(); !listening) {
      return tl::unexpected<base::Error>{std::move(listening.error())};
    }
    server->run();
    return server;
  } catch (const std::exception& e) {
    return base::fail(base::Fault::environment,
                      std::string{"cannot start the server: "} + e.what());
  }
}

}  // namespace crosscheck::net
