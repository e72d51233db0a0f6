#pragma once

#include <map>
#include <string>
#include <string_view>

namespace crosscheck::hud {

// The embedded styles, script and icon under names that hold their digest:
// "/assets/hud.<hash>.css". Immutable after construction.
class Assets {
 public:
  struct Asset {
    std::string type;
    std::string_view text;
    std::string gzipped;
  };
  Assets();
  // "hud.css" -> its address. An unknown name throws std::logic_error.
  [[nodiscard]] const std::string& url(std::string_view name) const;
  // By path; nullptr if there is none.
  [[nodiscard]] const Asset* find(std::string_view path) const;

 private:
  std::map<std::string, std::string, std::less<>> urls_;
  std::map<std::string, Asset, std::less<>> assets_;
};

}  // namespace crosscheck::hud
