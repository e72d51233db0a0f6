#include "crosscheck/relay/github_source.h"

#include <utility>

namespace crosscheck::relay {
namespace {

using base::Result;

class GithubSource final : public TextSource {
 public:
  GithubSource(std::string name, github::FileAddress address, github::FileReader reader,
               std::size_t limit)
      : name_{std::move(name)},
        address_{std::move(address)},
        reader_{std::move(reader)},
        limit_{limit} {}

  const std::string& name() const override { return name_; }
  bool is_remote() const override { return true; }

  Result<std::optional<std::string>> read() override {
    const std::string asked_with = std::exchange(etag_, {});
    auto version = github::read_file(reader_, address_, asked_with);
    if (!version)
      return base::fail(version.error().fault, name_ + ": " + version.error().message,
                        version.error().remedy);
    if (!*version) {
      etag_ = asked_with;
      return std::nullopt;
    }
    if ((*version)->text.size() > limit_)
      return base::fail(base::Fault::too_large,
                        name_ + ": larger than " + std::to_string(limit_) + " bytes");
    etag_ = std::move((*version)->etag);
    return std::move((*version)->text);
  }

 private:
  const std::string name_;
  const github::FileAddress address_;
  const github::FileReader reader_;
  const std::size_t limit_;
  std::string etag_;  // of what was returned last
};

}  // namespace

std::unique_ptr<TextSource> github_source(std::string name, github::FileAddress address,
                                          github::FileReader reader, std::size_t limit) {
  return std::make_unique<GithubSource>(std::move(name), std::move(address), std::move(reader),
                                        limit);
}

}  // namespace crosscheck::relay
