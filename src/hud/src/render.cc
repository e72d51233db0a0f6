#include "render.h"

#include <boost/json/value.hpp>
#include <map>
#include <mustache.hpp>
#include <stdexcept>

#include "crosscheck/base/json.h"
#include "crosscheck_embed/template.h"

namespace crosscheck::hud {
namespace {

namespace json = boost::json;
namespace mustache = kainjow::mustache;

mustache::data to_data(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return mustache::data{mustache::data::type::bool_false};
    case json::kind::bool_:
      return mustache::data{value.get_bool() ? mustache::data::type::bool_true
                                             : mustache::data::type::bool_false};
    case json::kind::string:
      return mustache::data{std::string{value.get_string()}};
    case json::kind::array: {
      mustache::list list;
      list.reserve(value.get_array().size());
      for (const auto& item : value.get_array()) list.push_back(to_data(item));
      return mustache::data{list};
    }
    case json::kind::object: {
      mustache::data object{mustache::data::type::object};
      for (const auto& [key, item] : value.get_object()) object[key] = to_data(item);
      return object;
    }
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      break;
  }
  return mustache::data{base::canonical_json(value)};
}

std::string_view stem(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return path.substr(0, path.find('.'));
}

}  // namespace

class Renderer::Impl {
 public:
  Impl() {
    std::map<std::string, std::string, std::less<>> texts;
    for (const auto& file : embed::template_files()) texts.emplace(stem(file.name), file.text);
    for (const auto& [name, text] : texts) {
      auto [it, is_new] =
          templates_.try_emplace(name, std::make_unique<mustache::mustache>(expand(texts, text)));
      if (!it->second->is_valid()) {
        throw std::logic_error("template " + name + ": " + it->second->error_message());
      }
    }
  }

  std::string render(std::string_view name, const json::object& context) const {
    const auto found = templates_.find(name);
    if (found == templates_.end()) throw std::logic_error("no template " + std::string{name});
    // Rendering leaves a template without partials and lambdas unchanged, though it is not const.
    return found->second->render(to_data(context));
  }

 private:
  using Texts = std::map<std::string, std::string, std::less<>>;

  // Mustache would parse a partial again each time it is used.
  static std::string expand(const Texts& texts, std::string_view text, int depth = 0) {
    if (depth > 4) throw std::logic_error("templates include each other");
    std::string out;
    for (;;) {
      const auto open = text.find("{{> ");
      const auto close = text.find("}}", open == std::string_view::npos ? text.size() : open);
      if (close == std::string_view::npos) return out += text;
      const auto part = texts.find(text.substr(open + 4, close - open - 4));
      if (part == texts.end()) {
        throw std::logic_error("no template " +
                               std::string{text.substr(open + 4, close - open - 4)});
      }
      out += text.substr(0, open);
      std::string_view body = part->second;
      if (body.ends_with('\n')) body.remove_suffix(1);
      out += expand(texts, body, depth + 1);
      text.remove_prefix(close + 2);
    }
  }

  std::map<std::string, std::unique_ptr<mustache::mustache>, std::less<>> templates_;
};

Renderer::Renderer() : impl_{std::make_unique<Impl>()} {}
Renderer::~Renderer() = default;

std::string Renderer::render(std::string_view name, const boost::json::object& context) const {
  return impl_->render(name, context);
}

}  // namespace crosscheck::hud
