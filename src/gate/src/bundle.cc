#include "crosscheck/gate/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;
namespace fs = std::filesystem;
using base::fail;
using base::Fault;

constexpr const char* k_digests = "digests.json";
constexpr std::size_t k_block = 512;
constexpr std::size_t k_name = 100;

// A header of POSIX ustar in which nothing depends on who writes it or when.
std::string header(const std::string& name, std::size_t size) {
  std::string block(k_block, '\0');
  const auto put = [&](std::size_t at, std::string_view text) {
    std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

std::string write_archive(const BundleFiles& files) {
  std::string out;
  for (const auto& [name, content] : files) {
    out += header(name, content.size());
    out += content;
    out.append((k_block - content.size() % k_block) % k_block, '\0');
  }
  return out.append(2 * k_block, '\0');
}

std::string digests_of(const BundleFiles& files) {
  json::object digests;
  for (const auto& [name, content] : files) digests[name] = base::sha256_hex(content);
  return base::canonical_json(digests);
}

}  // namespace

base::Result<BundleFiles> records_of(const fs::path& folder) {
  BundleFiles files;
  const auto add = [&](const fs::path& path) -> base::Result<void> {
    auto text = base::read_file(path);
    if (!text) return tl::unexpected(text.error());
    const auto name = path.lexically_relative(folder).string();
    if (name.size() >= k_name) {
      return fail(Fault::invalid_input, fmt::format("{}: its name is too long", path.string()));
    }
    files.emplace(name, std::move(*text));
    return {};
  };
  std::error_code error;
  for (const char* name : {"frozen.json", "rehearsal.json"}) {
    if (!fs::exists(folder / name, error)) continue;
    if (auto done = add(folder / name); !done) return tl::unexpected(done.error());
  }
  for (const char* name : {"launches", "environments"}) {
    for (const auto& entry : fs::directory_iterator{folder / name, error}) {
      if (entry.path().extension() != ".json") continue;
      if (auto done = add(entry.path()); !done) return tl::unexpected(done.error());
    }
  }
  return files;
}

std::string make_bundle(BundleFiles files) {
  auto digests = digests_of(files);
  files.emplace(k_digests, std::move(digests));
  return write_archive(files);
}

base::Result<BundleFiles> open_bundle(std::string_view bytes, const std::string& source) {
  const auto changed = [&](const std::string& what) {
    return fail(Fault::invalid_input, fmt::format("{}: {}", source, what),
                "get the bundle again from whoever made it");
  };
  BundleFiles files;
  std::size_t at = 0;
  while (at + k_block <= bytes.size() && bytes[at] != '\0') {
    const auto block = bytes.substr(at, k_block);
    const std::string name{block.substr(0, std::min(block.find('\0'), k_name))};
    std::size_t size = 0;
    const auto digits = block.substr(124, 11);
    const auto [stop, failed] =
        std::from_chars(digits.data(), digits.data() + digits.size(), size, 8);
    if (failed != std::errc{} || stop != digits.data() + digits.size() ||
        header(name, size) != block) {
      return changed(fmt::format("the header at byte {} was changed", at));
    }
    at += k_block;
    if (size > bytes.size() - at) return changed(fmt::format("it is cut off within {}", name));
    // A bundle is read, never unpacked by these names; still, nobody else should be led astray.
    if (name.starts_with('/') || name.find("..") != std::string::npos) {
      return changed(fmt::format("'{}' leads out of the bundle", base::to_utf8(name)));
    }
    if (!files.emplace(name, bytes.substr(at, size)).second) {
      return changed(fmt::format("{} stands twice", base::to_utf8(name)));
    }
    at += size + (k_block - size % k_block) % k_block;
  }
  const auto found = files.find(k_digests);
  if (found == files.end()) return changed("it holds no digests");
  const auto digests = base::parse_json(found->second, fmt::format("{}: {}", source, k_digests));
  if (!digests) return tl::unexpected(digests.error());
  if (!digests->is_object()) return changed("its digests are none");
  for (const auto& [name, digest] : digests->as_object()) {
    const auto file = files.find(std::string{name});
    if (file == files.end()) return changed(fmt::format("{} is missing", std::string_view{name}));
    if (!digest.is_string() || base::sha256_hex(file->second) != digest.as_string()) {
      return changed(fmt::format("{} was changed", std::string_view{name}));
    }
  }
  auto content = files;
  content.erase(k_digests);
  if (digests_of(content) != found->second) {
    return changed("it holds more than its digests name, or they were rewritten");
  }
  // What stands between and after the files.
  if (write_archive(files) != bytes) return changed("bytes around its files were changed");
  return content;
}

}  // namespace crosscheck::gate
