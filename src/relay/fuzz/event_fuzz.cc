#include <cstdint>
#include <string_view>

#include "crosscheck/relay/event.h"

// The first byte chooses the event, the rest is the body.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace base = crosscheck::base;
  if (size == 0) return 0;
  constexpr std::string_view types[] = {"pull_request", "push", "check_run", "check_suite"};
  const std::string_view type = types[data[0] % 4];
  const auto value = base::parse_json({reinterpret_cast<const char*>(data) + 1, size - 1}, "body");
  if (!value || !value->is_object()) return 0;
  static const auto upstream = base::RepoName::parse("a/b").value();
  static_cast<void>(crosscheck::relay::route(type, value->get_object(), upstream, "ciflow/crcr/"));
  const auto event = crosscheck::relay::read_event(type, *value);
  if (event && event->pr_title && event->pr_title->find('\0') != std::string::npos)
    __builtin_trap();
  return 0;
}
