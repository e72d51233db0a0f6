#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/result.h"
#include "crosscheck/github/app.h"
#include "crosscheck/net/client.h"

namespace crosscheck::github {

// A file in a repository. `ref` and `path` as addresses have them: percent-encoded.
struct FileAddress {
  base::RepoName repo;
  std::string ref;
  std::string path;
};

// "https://github.com/OWNER/REPO/blob/REF/PATH" (with GitHub Enterprise, its own host), or
// "<api_url>/repos/OWNER/REPO/contents/PATH?ref=REF". REF is one segment, or refs/heads/… or
// refs/tags/… with one more; a '/' in a branch's name is written %2F.
[[nodiscard]] base::Result<FileAddress> parse_file_address(std::string_view url,
                                                           std::string_view api_url);

struct FileVersion {
  std::string text;
  std::string etag;  // names this version; may be empty
};

// How files are read: as the App's installation on their repository, without authentication where
// it has none or there is no App (GitHub allows that 60 times an hour).
struct FileReader {
  net::Client& client;
  std::string api_url;
  App* app = nullptr;
};

// The file, or nothing when it still is the version that `etag` names. Waits at most 30 seconds;
// not on the client's thread.
[[nodiscard]] base::Result<std::optional<FileVersion>> read_file(const FileReader& reader,
                                                                 const FileAddress& address,
                                                                 std::string_view etag);

}  // namespace crosscheck::github
