#include "crosscheck/net/client.h"

#include <gtest/gtest.h>

#include "crosscheck/net/server.h"

namespace crosscheck::net {
namespace {

TEST(Client, SendsAndReceivesAsGiven) {
  auto server = Server::start({}, [](const Request& request) {
    Response response = Response::text(
        201, request.method + ' ' + request.path + ' ' + request.query + ' ' + request.body);
    response.headers.add("X-Echo", std::string{request.headers.get("x-in").value_or("none")});
    return response;
  });
  ASSERT_TRUE(server) << to_string(server.error());
  const std::string base = "http://127.0.0.1:" + std::to_string((*server)->port());
  const auto client = Client::create();
  for (const std::string method : {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}) {
    for (const std::string body : {"", "body"}) {
      ClientRequest request;
      request.method = method;
      request.url = base + "/a%20b?c=d";
      request.headers = {{"X-In", "in"}};
      request.body = body;
      const ClientResult result = client->send(std::move(request));
      ASSERT_TRUE(result) << to_string(result.error().error);
      EXPECT_EQ(result->status, 201);
      EXPECT_EQ(result->body, method + " /a b c=d " + body);
      EXPECT_EQ(result->headers.get("x-echo"), "in");
      EXPECT_EQ(result->headers.get("server"), std::nullopt);
    }
  }
}

}  // namespace
}  // namespace crosscheck::net
