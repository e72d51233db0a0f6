#include <algorithm>
#include <charconv>

#include "crosscheck/memory/diff.h"

namespace crosscheck::memory {
namespace {

using base::fail;
using base::Fault;
using base::Result;

constexpr std::size_t k_block = 512;

std::string_view field(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view text = header.substr(at, size);
  return text.substr(0, text.find('\0'));
}

// Octal digits with spaces around; nothing if it is none.
Result<std::size_t> number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty())
    return fail(Fault::invalid_input, "the archive is no tar archive");
  return value;
}

// "path" of a pax header: lines "LENGTH KEY=VALUE\n".
std::string pax_path(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto head = static_cast<std::size_t>(end - text.data()) + 1;
    if (error != std::errc{} || length <= head || length > text.size()) return {};
    const std::string_view line = text.substr(head, length - head - 1);
    if (line.starts_with("path=")) return std::string{line.substr(5)};
    text.remove_prefix(length);
  }
  return {};
}

}  // namespace

Result<std::vector<Member>> read_tar(std::string_view archive) {
  const auto cut = [] { return fail(Fault::invalid_input, "the archive is cut off"); };
  std::vector<Member> members;
  std::string long_name;
  while (true) {
    if (archive.size() < k_block) return cut();
    const std::string_view header = archive.substr(0, k_block);
    archive.remove_prefix(k_block);
    if (header.find_first_not_of('\0') == std::string_view::npos) return members;
    const auto size = number(field(header, 124, 12));
    if (!size) return tl::unexpected(size.error());
    if (*size > archive.size()) return cut();
    const std::string_view bytes = archive.substr(0, *size);
    const std::size_t padded = (*size + k_block - 1) / k_block * k_block;
    archive.remove_prefix(std::min(padded, archive.size()));
    const char type = header[156];
    if (type == 'x') {
      long_name = pax_path(bytes);
    } else if (type == 'L') {
      long_name = bytes.substr(0, bytes.find('\0'));
    } else {
      std::string name = std::move(long_name);
      long_name.clear();
      if (name.empty()) {
        const std::string_view prefix =
            header.substr(257, 5) == "ustar" ? field(header, 345, 155) : std::string_view{};
        name =
            (prefix.empty() ? "" : std::string{prefix} + "/") + std::string{field(header, 0, 100)};
      }
      if ((type == '0' || type == '\0') && name.ends_with(".py"))
        members.push_back({std::move(name), std::string{bytes}});
    }
  }
}

}  // namespace crosscheck::memory
