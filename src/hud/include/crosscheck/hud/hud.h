#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "crosscheck/base/time.h"
#include "crosscheck/hud/live.h"
#include "crosscheck/hud/readiness.h"
#include "crosscheck/net/http.h"

namespace crosscheck::store {
class Store;
}

// The pages and their JSON twins: reads the store, changes nothing.
namespace crosscheck::hud {

struct HudOptions {
  const base::Clock& clock;        // must outlive the Hud
  std::string upstream_repo = {};  // "pytorch/pytorch": what commits and pull requests link to
  // Where upstream's pages are; empty: no links to them (local mode has none).
  std::string upstream_url = "https://github.com";
  std::string version = {};
  ReadinessTargets readiness = {};
  // Pages read at once. Fewer than the store's readers and, with those that wait, than the server's
  // handlers: whoever reads pages does not keep events and reports waiting.
  std::size_t readers = 2;
  std::size_t waiting_readers = 8;
  // What the process says of itself on /ops; nothing: the page has what the store knows.
  std::function<Live()> live = {};
};

// Thread-safe.
class Hud {
 public:
  // `store` must outlive the Hud. Compiles the templates: a broken one is a bug here and throws
  // std::logic_error.
  Hud(store::Store& store, HudOptions options);
  ~Hud();
  Hud(const Hud&) = delete;
  Hud& operator=(const Hud&) = delete;

  // The answer to a request for one of the HUD's paths, nothing for any other path. Methods other
  // than GET and HEAD are answered 405. A store that cannot be read, and more readers than may
  // wait, are a 503 that says so; never a 500.
  [[nodiscard]] std::optional<net::Response> handle(const net::Request& request);

  // 404 as a page, or as JSON for a path that ends in `.json`: for paths that nobody answers.
  [[nodiscard]] net::Response not_found(const net::Request& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crosscheck::hud
