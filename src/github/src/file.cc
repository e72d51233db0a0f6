#include "crosscheck/github/file.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>
#include <vector>

namespace crosscheck::github {
namespace {

using base::fail;
using base::Fault;
using base::Result;
using Answer = base::Result<net::Response, CallAnswer>;

constexpr std::chrono::seconds k_longest{15};  // for each of the two ways

struct Address {
  std::string_view host;  // with its port
  std::string_view path;  // without query and fragment
  std::string_view query;
};

Address split(std::string_view url) {
  const auto scheme = url.find("://");
  std::string_view rest = scheme == std::string_view::npos ? url : url.substr(scheme + 3);
  rest = rest.substr(0, rest.find('#'));
  Address address;
  const auto question = rest.find('?');
  if (question != std::string_view::npos) address.query = rest.substr(question + 1);
  rest = rest.substr(0, question);
  const auto slash = std::min(rest.find('/'), rest.size());
  address.host = rest.substr(0, slash);
  address.path = rest.substr(slash);
  return address;
}

// Whether every segment names something, in characters that an address may hold as they are.
bool is_plain(const std::vector<std::string_view>& segments) {
  return !segments.empty() && std::ranges::all_of(segments, [](std::string_view segment) {
    return !segment.empty() && segment != "." && segment != ".." &&
           std::ranges::all_of(segment, [](char c) { return c > ' ' && c < '\x7f' && c != '\\'; });
  });
}

std::string join(const std::vector<std::string_view>& segments) {
  std::string text;
  for (const std::string_view segment : segments) {
    if (!text.empty()) text += '/';
    text += segment;
  }
  return text;
}

// OWNER, REPO and `word` before what is returned, if that is what `segments` begin with.
std::optional<std::vector<std::string_view>> after(const std::vector<std::string_view>& segments,
                                                   std::string_view word) {
  if (segments.size() < 4 || segments[2] != word) return std::nullopt;
  return std::vector(segments.begin() + 3, segments.end());
}

}  // namespace

Result<FileAddress> parse_file_address(std::string_view url, std::string_view api_url) {
  const auto wrong = [&](std::string what) {
    return fail(Fault::invalid_input, "'" + std::string{url} + "' " + std::move(what),
                "write https://github.com/OWNER/REPO/blob/REF/PATH");
  };
  while (api_url.ends_with('/')) api_url.remove_suffix(1);
  const Address address = split(url);
  const Address api = split(api_url);
  const std::string api_repos = std::string{api.path} + "/repos";
  const bool is_api = address.host == api.host && address.path.starts_with(api_repos + "/");
  if (!is_api && address.host != "github.com" && address.host != api.host)
    return wrong("is not on github.com, nor where github_api_url is");
  const auto segments =
      net::split_path(is_api ? address.path.substr(api_repos.size()) : address.path);
  auto rest = after(segments, is_api ? "contents" : "blob");
  if (!rest || !is_plain(segments)) return wrong("is not the address of a file in a repository");
  auto repo = base::RepoName::parse(std::string{segments[0]} + "/" + std::string{segments[1]});
  if (!repo) return wrong("names no repository");
  if (is_api) {
    constexpr std::string_view k_ref = "ref=";
    const auto ref = address.query.starts_with(k_ref) ? address.query.substr(k_ref.size()) : "";
    if (ref.find('&') != std::string_view::npos) return wrong("has more in its query than ref");
    return FileAddress{*repo, std::string{ref}, join(*rest)};
  }
  const bool is_full = rest->size() > 2 && rest->front() == "refs" &&
                       ((*rest)[1] == "heads" || (*rest)[1] == "tags");
  const std::ptrdiff_t length = is_full ? 3 : 1;
  if (std::ssize(*rest) <= length) return wrong("names no file");
  return FileAddress{*repo, join({rest->begin(), rest->begin() + length}),
                     join({rest->begin() + length, rest->end()})};
}

Result<std::optional<FileVersion>> read_file(const FileReader& reader, const FileAddress& address,
                                             std::string_view etag) {
  std::string path = "/repos/" + address.repo.full_name() + "/contents/" + address.path;
  if (!address.ref.empty()) path += "?ref=" + address.ref;
  net::Headers headers{{"Accept", "application/vnd.github.raw+json"}};
  if (!etag.empty()) headers.add("If-None-Match", std::string{etag});

  const auto deadline = [] { return std::chrono::steady_clock::now() + k_longest; };
  Answer answer = tl::unexpected(CallAnswer{CallAnswer::Kind::rejected});
  if (reader.app != nullptr) {
    std::promise<Answer> promise;
    reader.app->fetch(address.repo, path, headers, deadline(),
                      [&](Answer result) { promise.set_value(std::move(result)); });
    answer = promise.get_future().get();
  }
  // The App may not be installed there, and the repository public.
  if (!answer && answer.error().kind == CallAnswer::Kind::rejected)
    answer = fetch_anonymously(reader.client, reader.api_url, path, headers, k_longest);
  if (!answer) {
    const auto& why = answer.error();
    if (why.kind == CallAnswer::Kind::rejected)
      return fail(Fault::not_found, "GitHub does not give the file: " + why.reason,
                  "check the address; for a private repository install the App on it");
    return fail(Fault::unavailable, "GitHub does not give the file: " + why.reason);
  }
  if (answer->status == 304) return std::nullopt;
  return FileVersion{std::move(answer->body),
                     std::string{answer->headers.get("ETag").value_or("")}};
}

}  // namespace crosscheck::github
