#include <cstdint>
#include <cstdlib>
#include <string>

#include "crosscheck/hud/hud.h"
#include "crosscheck/store/store.h"

namespace {

using namespace crosscheck;

// Every read fails, so that what is fuzzed is the way from a request to a query, and the error
// pages.
class NoStore final : public store::Store {
 public:
  base::Result<void> write(const std::function<base::Result<void>(store::Tx&)>&) override {
    std::abort();  // pages change nothing
  }
  base::Result<void> read(const std::function<base::Result<void>(store::Tx&)>&) override {
    return base::fail(base::Fault::not_found, "no store");
  }
  bool wait_for(std::string_view, base::Duration) override { return false; }
  void interrupt() override {}
  [[nodiscard]] store::Engine engine() const override { return store::Engine::sqlite; }
  [[nodiscard]] std::size_t waiting_writes() const override { return 0; }
};

}  // namespace

// Input: the request's target, a line break, and the value of If-None-Match and Accept-Encoding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static NoStore store;
  static const base::ManualClock clock{base::Time{}};
  static hud::Hud pages{store, {.clock = clock, .upstream_repo = "pytorch/pytorch"}};
  std::string text{reinterpret_cast<const char*>(data), size};
  net::Request request;
  request.method = "GET";
  const auto line = text.find('\n');
  if (line != std::string::npos) {
    request.headers.set("If-None-Match", text.substr(line + 1));
    request.headers.set("Accept-Encoding", text.substr(line + 1));
    text.resize(line);
  }
  const auto mark = text.find('?');
  if (mark != std::string::npos) request.query = text.substr(mark + 1);
  const auto decoded = net::percent_decode(text.substr(0, mark));
  if (!decoded || !decoded->starts_with('/')) return 0;
  request.path = *decoded;
  const auto response = pages.handle(request);
  if (response && response->status == 500) std::abort();
  return 0;
}
