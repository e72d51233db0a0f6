#include "crosscheck/relay/providers_file.h"

#include <utility>

#include "crosscheck/base/log.h"

namespace crosscheck::relay {

using base::Result;
namespace log = base::log;

ProvidersFile::ProvidersFile(std::unique_ptr<TextSource> source)
    : source_{std::move(source)}, current_{std::make_shared<const Providers>()} {}

Result<void> ProvidersFile::poll() {
  auto done = refresh();
  const std::string error = done ? std::string{} : done.error().message;
  const std::lock_guard lock{mutex_};
  if (!error.empty() && error_ != error) log::error("ci_providers", {{"error", error}});
  error_ = error;
  return done;
}

Result<void> ProvidersFile::refresh() {
  const std::lock_guard one{refreshing_};
  const auto text = source_->read();
  if (!text) return tl::unexpected(text.error());
  if (*text) {
    auto parsed = parse_providers(**text, source_->name());
    if (parsed) {
      seen_error_.reset();
      log::info("ci_providers.loaded",
                {{"source", source_->name()}, {"pipelines", parsed->size()}});
      const std::lock_guard lock{mutex_};
      current_ = std::make_shared<const Providers>(std::move(*parsed));
    } else {
      seen_error_ = parsed.error();
    }
  }
  if (seen_error_) return tl::unexpected(*seen_error_);
  return {};
}

std::shared_ptr<const Providers> ProvidersFile::current() const {
  const std::lock_guard lock{mutex_};
  return current_;
}

std::string ProvidersFile::error() const {
  const std::lock_guard lock{mutex_};
  return error_;
}

}  // namespace crosscheck::relay
