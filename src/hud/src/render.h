#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace crosscheck::hud {

// The embedded mustache templates, compiled once. A template sees a JSON object: null and false are
// absent, numbers are text. `{{> name}}` is replaced by that template's text when loading.
// Thread-safe.
class Renderer {
 public:
  Renderer();  // throws std::logic_error that names a template which is not valid
  ~Renderer();
  // `name` without folder and extension. An unknown one throws std::logic_error.
  [[nodiscard]] std::string render(std::string_view name, const boost::json::object& context) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crosscheck::hud
