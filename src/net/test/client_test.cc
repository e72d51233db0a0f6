#include "crosscheck/net/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

#include "crosscheck/net/server.h"
#include "peer.h"

namespace crosscheck::net {
namespace {

using namespace std::chrono_literals;
using base::Fault;
using test::Listener;
using test::Peer;

std::unique_ptr<Server> start(Handler handler, ServerOptions options = {}) {
  auto server = Server::start(std::move(options), std::move(handler));
  EXPECT_TRUE(server) << to_string(server.error());
  return server ? *std::move(server) : nullptr;
}

std::string at(std::uint16_t port, const std::string& target = "/") {
  return "http://127.0.0.1:" + std::to_string(port) + target;
}

ClientRequest to(const std::string& method, const std::string& url, std::string body = {}) {
  ClientRequest request;
  request.method = method;
  request.url = url;
  request.body = std::move(body);
  request.timeout = std::chrono::seconds{test::k_patience_s};
  return request;
}

TEST(Client, SendsAndReceivesAsGiven) {
  const auto server = start([](const Request& request) {
    Response response = Response::text(
        201, request.method + ' ' + request.path + ' ' + request.query + ' ' + request.body);
    response.headers.add("X-In", std::string{request.headers.get("x-in").value_or("none")});
    response.headers.add("X-Empty", std::string{request.headers.get("x-empty").value_or("none")});
    response.headers.add("X-Type",
                         std::string{request.headers.get("content-type").value_or("none")});
    response.headers.add("X-Agent",
                         std::string{request.headers.get("user-agent").value_or("none")});
    response.headers.add("X-Length",
                         std::string{request.headers.get("content-length").value_or("none")});
    return response;
  });
  const auto client = Client::create();
  for (const std::string method : {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}) {
    for (const std::string body : {"", "body"}) {
      ClientRequest request = to(method, at(server->port(), "/a%20b?c=d"), body);
      request.headers = {{"X-In", "in: and out"}, {"X-Empty", ""}};
      const ClientResult result = client->send(std::move(request));
      ASSERT_TRUE(result) << to_string(result.error().error);
      EXPECT_EQ(result->status, 201);
      EXPECT_EQ(result->body, method + " /a b c=d " + body);
      EXPECT_EQ(result->headers.get("x-in"), "in: and out");
      EXPECT_EQ(result->headers.get("x-empty"), "");
      EXPECT_EQ(result->headers.get("x-type"), "none");
      EXPECT_EQ(result->headers.get("x-agent"), "crosscheck");
      const bool has_length = !body.empty() || method.starts_with('P');
      EXPECT_EQ(result->headers.get("x-length"), has_length ? std::to_string(body.size()) : "none");
    }
  }
}

TEST(Client, HeadHasALengthAndNoBody) {
  const auto server = start([](const Request&) { return Response::text(200, "twelve bytes"); });
  const ClientResult result = Client::create()->send(to("HEAD", at(server->port())));
  ASSERT_TRUE(result) << to_string(result.error().error);
  EXPECT_EQ(result->headers.get("Content-Length"), "12");
  EXPECT_EQ(result->body, "");
}

TEST(Client, GivesAnyStatusAndFollowsNoRedirect) {
  const auto server = start([](const Request& request) {
    Response response = Response::text(std::stoi(request.path.substr(1)), "as it came");
    response.headers.add("Location", "/200");
    return response;
  });
  const auto client = Client::create();
  for (const int status : {200, 301, 302, 307, 401, 404, 407, 429, 500, 503}) {
    const ClientResult result =
        client->send(to("GET", at(server->port(), "/" + std::to_string(status))));
    ASSERT_TRUE(result) << to_string(result.error().error);
    EXPECT_EQ(result->status, status);
    EXPECT_EQ(result->body, "as it came");
    EXPECT_EQ(result->headers.get("location"), "/200");
  }
}

TEST(Client, RefusesWhatIsNoHttpRequest) {
  const auto client = Client::create();
  for (const std::string url : {"", "http://", "ftp://h/", "file:///etc/passwd", "gopher://h/",
                                "http://user:pw@h/", "http://user@h/", "http://h/a b",
                                "http://h/\r\nX: y", "http://h:99999/", "//h/", "javascript:1"}) {
    const ClientResult result = client->send(to("GET", url));
    ASSERT_FALSE(result) << url;
    EXPECT_EQ(result.error().error.fault, Fault::invalid_input) << url;
    EXPECT_FALSE(result.error().maybe_sent) << url;
    EXPECT_THAT(result.error().error.message, testing::Not(testing::HasSubstr("pw"))) << url;
  }
  for (const std::string method : {"", "G T", "GET\r\nX: y", "GET / HTTP/1.1"}) {
    const ClientResult result = client->send(to(method, "http://127.0.0.1:1/"));
    ASSERT_FALSE(result) << method;
    EXPECT_EQ(result.error().error.fault, Fault::invalid_input) << method;
  }
  const std::pair<std::string, std::string> headers[] = {{"X", "a\r\nY: b"},
                                                         {"X", "a\nb"},
                                                         {"X", {"a\0b", 3}},
                                                         {"X\r\nY", "a"},
                                                         {"X:", "a"},
                                                         {"", "a"},
                                                         {"X Y", "a"},
                                                         {"X;", "a"},
                                                         {"Content-Length", "3"},
                                                         {"transfer-encoding", "chunked"}};
  for (const auto& [name, value] : headers) {
    ClientRequest request = to("GET", "http://127.0.0.1:1/");
    request.headers.add(name, value);
    const ClientResult result = client->send(std::move(request));
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().error.fault, Fault::invalid_input) << name << ": " << value;
  }
}

TEST(Client, ARefusedConnectionWasNotSent) {
  std::uint16_t port = 0;
  {
    const Listener gone;
    port = gone.port();
  }
  const ClientResult result = Client::create()->send(to("POST", at(port, "/secret?token=1"), "x"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error.fault, Fault::unavailable);
  EXPECT_FALSE(result.error().maybe_sent);
  EXPECT_THAT(result.error().error.message, testing::HasSubstr("127.0.0.1"));
  EXPECT_THAT(result.error().error.message, testing::Not(testing::HasSubstr("secret")));
  EXPECT_THAT(result.error().error.message, testing::Not(testing::HasSubstr("token")));
}

TEST(Client, AnUnknownHostWasNotSent) {
  const ClientResult result = Client::create()->send(to("POST", "http://no-such-host.invalid/"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error.fault, Fault::unavailable);
  EXPECT_FALSE(result.error().maybe_sent);
  EXPECT_THAT(result.error().error.message, testing::HasSubstr("no-such-host.invalid"));
}

TEST(Client, AFailedTlsHandshakeWasNotSent) {
  const auto server = start([](const Request&) { return Response::text(200, ""); });
  const ClientResult result = Client::create()->send(
      to("POST", "https://127.0.0.1:" + std::to_string(server->port()) + "/"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error.fault, Fault::unavailable);
  EXPECT_FALSE(result.error().maybe_sent);
}

TEST(Client, TimesOutOnWhoTakesTheRequestAndSaysNothing) {
  Listener listener;
  ASSERT_TRUE(listener.is_open());
  ClientRequest request = to("POST", at(listener.port(), "/path?token=1"), "x");
  request.timeout = 50ms;
  const ClientResult result = Client::create()->send(std::move(request));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error.fault, Fault::unavailable);
  EXPECT_TRUE(result.error().maybe_sent);
  EXPECT_THAT(result.error().error.message, testing::HasSubstr("within 50 ms"));
  EXPECT_THAT(result.error().error.message, testing::Not(testing::HasSubstr("token")));
}

TEST(Client, MaybeSentWhenTheConnectionEndsAfterTheRequest) {
  Listener listener;
  ASSERT_TRUE(listener.is_open());
  for (const std::string answer :
       {"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "nonsense\r\n\r\n"}) {
    std::promise<ClientResult> promise;
    const auto client = Client::create();
    client->send(to("POST", at(listener.port()), "x"),
                 [&](ClientResult result) { promise.set_value(std::move(result)); });
    {
      std::optional<Peer> peer = listener.accept();
      ASSERT_TRUE(peer);
      peer->read_through("\r\n\r\nx");
      peer->send(answer);
    }
    const ClientResult result = promise.get_future().get();
    ASSERT_FALSE(result) << answer;
    EXPECT_EQ(result.error().error.fault, Fault::unavailable) << answer;
    EXPECT_TRUE(result.error().maybe_sent) << answer;
  }
}

// A pooled connection that dies under a request: libcurl would send it once more by itself.
TEST(Client, SendsAgainByItselfOnlyWhatMayBeDoneTwice) {
  Listener listener;
  ASSERT_TRUE(listener.is_open());
  for (const std::string method : {"POST", "PATCH", "GET", "PUT"}) {
    for (const std::string body : {"", "x"}) {
      const auto client = Client::create();
      const auto send = [&](const std::string& path) {
        auto promise = std::make_shared<std::promise<ClientResult>>();
        client->send(to(method, at(listener.port(), path), body),
                     [promise](ClientResult result) { promise->set_value(std::move(result)); });
        return promise->get_future();
      };
      const auto take = [&](Peer& peer) { return peer.read_through("\r\n\r\n" + body); };
      constexpr std::string_view k_ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

      std::future<ClientResult> first = send("/first");
      std::optional<Peer> pooled = listener.accept();
      ASSERT_TRUE(pooled);
      EXPECT_THAT(take(*pooled), testing::HasSubstr("/first"));
      pooled->send(k_ok);
      ASSERT_TRUE(first.get());

      std::future<ClientResult> second = send("/second");
      EXPECT_THAT(take(*pooled), testing::HasSubstr("/second"));
      pooled.reset();
      std::optional<Peer> fresh = listener.accept();  // libcurl connects before it asks
      ASSERT_TRUE(fresh);
      if (method.starts_with("PO") || method == "PATCH") {
        const ClientResult result = second.get();
        ASSERT_FALSE(result) << method << body;
        EXPECT_EQ(result.error().error.fault, Fault::unavailable);
        EXPECT_TRUE(result.error().maybe_sent);
        EXPECT_EQ(fresh->read_to_end(), "") << method << body;
      } else {
        EXPECT_THAT(take(*fresh), testing::HasSubstr("/second"));
        fresh->send(k_ok);
        EXPECT_TRUE(second.get()) << method << body;
      }
    }
  }
}

TEST(Client, LimitsTheAnswer) {
  const auto server = start([](const Request& request) {
    if (request.path == "/headers") {
      Response response = Response::text(200, "");
      for (int i = 0; i < 40; ++i) response.headers.add("X", std::string(8'000, 'x'));
      return response;
    }
    return Response::text(200, std::string(std::stoul(request.path.substr(1)), 'x'));
  });
  const auto client = Client::create();
  const struct {
    std::string path;
    std::size_t limit;
    bool fits;
  } cases[] = {{"/100", 100, true},     {"/101", 100, false},          {"/1", 0, false},
               {"/0", 0, true},         {"/9000000", 9'000'000, true}, {"/9000000", 100, false},
               {"/headers", 100, false}};
  for (const auto& c : cases) {
    ClientRequest request = to("GET", at(server->port(), c.path));
    request.body_limit = c.limit;
    const ClientResult result = client->send(std::move(request));
    ASSERT_EQ(result.has_value(), c.fits) << c.path << ' ' << c.limit;
    if (!result) {
      EXPECT_EQ(result.error().error.fault, Fault::too_large);
      EXPECT_TRUE(result.error().maybe_sent);
    }
  }
}

TEST(Client, CarriesLargeBinaryBodiesBothWays) {
  std::string body(std::size_t{32} << 20, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2654435761U >> 13);
  ServerOptions options;
  options.body_limit = [](const Request&) { return std::size_t{32} << 20; };
  const auto server = start(
      [](const Request& request) {
        EXPECT_EQ(request.headers.get("Expect"), std::nullopt);
        return Response{200, {}, request.body};
      },
      options);
  ClientRequest request = to("PUT", at(server->port()), body);
  request.body_limit = body.size();
  const ClientResult result = Client::create()->send(std::move(request));
  ASSERT_TRUE(result) << to_string(result.error().error);
  EXPECT_TRUE(result->body == body);
}

TEST(Client, ReadsTheRefusalOfALargeUpload) {
  const auto server = start([](const Request&) { return Response::text(200, ""); });
  const ClientResult result = Client::create()->send(
      to("POST", at(server->port()), std::string(std::size_t{16} << 20, 'x')));
  ASSERT_TRUE(result) << to_string(result.error().error);
  EXPECT_EQ(result->status, 413);
}

TEST(Client, HasManyRequestsOpenAtOnceAndFewConnections) {
  constexpr int k_requests = 200;
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  ServerOptions options;
  options.handler_threads = 32;
  const auto server = start(
      [&](const Request& request) {
        const int now = ++at_once;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        Response response = Response::text(200, request.path);
        --at_once;
        return response;
      },
      options);
  Client::Options client_options;
  client_options.max_connections_per_host = 8;
  const auto client = Client::create(client_options);
  std::atomic<int> answered = 0;
  std::promise<void> all;
  std::vector<std::thread> senders;
  for (int t = 0; t < 4; ++t) {
    senders.emplace_back([&, t] {
      for (int i = t; i < k_requests; i += 4) {
        const std::string path = "/" + std::to_string(i);
        client->send(to("GET", at(server->port(), path)), [&, path](ClientResult result) {
          EXPECT_TRUE(result) << to_string(result.error().error);
          EXPECT_EQ(result->body, path);
          if (++answered == k_requests) all.set_value();
        });
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
  ASSERT_EQ(all.get_future().wait_for(std::chrono::seconds{test::k_patience_s}),
            std::future_status::ready);
  EXPECT_LE(most, 8);
}

TEST(Client, ADoneMaySendAgain) {
  const auto server =
      start([](const Request& request) { return Response::text(200, request.path); });
  const auto client = Client::create();
  std::promise<std::string> promise;
  const auto owner = std::make_shared<std::thread::id>();
  client->send(to("GET", at(server->port(), "/1")), [&](ClientResult) {
    *owner = std::this_thread::get_id();
    client->send(to("GET", at(server->port(), "/2")), [&](ClientResult result) {
      EXPECT_EQ(std::this_thread::get_id(), *owner);
      promise.set_value(result ? result->body : to_string(result.error().error));
    });
  });
  EXPECT_EQ(promise.get_future().get(), "/2");
}

TEST(Client, DestroyedItFailsWhatIsOpen) {
  Listener listener;
  ASSERT_TRUE(listener.is_open());
  constexpr int k_requests = 20;
  std::vector<ClientResult> results;
  {
    Client::Options options;
    options.max_connections_per_host = 4;  // some have not even a connection
    const auto client = Client::create(options);
    for (int i = 0; i < k_requests; ++i) {
      client->send(to("POST", at(listener.port()), "x"),
                   [&](ClientResult result) { results.push_back(std::move(result)); });
    }
    std::optional<Peer> peer = listener.accept();
    ASSERT_TRUE(peer);
    peer->read_through("\r\n\r\nx");
  }
  ASSERT_EQ(results.size(), k_requests);
  int maybe_sent = 0;
  for (const ClientResult& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().error.fault, Fault::unavailable);
    if (result.error().maybe_sent) ++maybe_sent;
  }
  EXPECT_GE(maybe_sent, 1);
  EXPECT_LE(maybe_sent, 4);
}

TEST(Client, UsesTheEnvironmentsProxyButNotForLoopback) {
  const auto proxy = start([](const Request& request) {
    return Response::text(200, "for " + std::string{request.headers.get("Host").value_or("")});
  });
  const auto here = start([](const Request&) { return Response::text(200, "direct"); });
  ASSERT_EQ(setenv("http_proxy", at(proxy->port(), "").c_str(), 1), 0);
  const auto client = Client::create();
  const ClientResult far = client->send(to("GET", "http://far.invalid/"));
  const ClientResult near = client->send(to("GET", at(here->port())));
  unsetenv("http_proxy");
  ASSERT_TRUE(far) << to_string(far.error().error);
  EXPECT_EQ(far->body, "for far.invalid");
  ASSERT_TRUE(near) << to_string(near.error().error);
  EXPECT_EQ(near->body, "direct");
}

}  // namespace
}  // namespace crosscheck::net
