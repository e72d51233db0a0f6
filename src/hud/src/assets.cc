#include "assets.h"

#include <stdexcept>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/gzip.h"
#include "crosscheck_embed/asset.h"

namespace crosscheck::hud {
namespace {

std::string_view type_of(std::string_view extension) {
  if (extension == "css") return "text/css; charset=utf-8";
  if (extension == "js") return "text/javascript; charset=utf-8";
  if (extension == "svg") return "image/svg+xml";
  return "application/octet-stream";
}

}  // namespace

Assets::Assets() {
  for (const auto& file : embed::asset_files()) {
    std::string_view name = file.name;
    name.remove_prefix(name.rfind('/') + 1);
    const auto dot = name.rfind('.');
    const auto extension = name.substr(dot + 1);
    std::string url = "/assets/" + std::string{name.substr(0, dot)} + '.' +
                      base::sha256_hex(file.text).substr(0, 12) + '.' + std::string{extension};
    assets_.emplace(url, Asset{std::string{type_of(extension)}, file.text, base::gzip(file.text)});
    urls_.emplace(name, std::move(url));
  }
}

const std::string& Assets::url(std::string_view name) const {
  const auto found = urls_.find(name);
  if (found == urls_.end()) throw std::logic_error("no asset " + std::string{name});
  return found->second;
}

const Assets::Asset* Assets::find(std::string_view path) const {
  const auto found = assets_.find(path);
  return found == assets_.end() ? nullptr : &found->second;
}

}  // namespace crosscheck::hud
