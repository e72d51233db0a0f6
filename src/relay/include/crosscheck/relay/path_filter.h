#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/github/app.h"
#include "crosscheck/relay/allowlist_file.h"
#include "crosscheck/relay/target.h"

namespace crosscheck::relay {

using ChangedFiles = std::vector<std::string>;
using GotChangedFiles = std::function<void(base::Result<std::shared_ptr<const ChangedFiles>>)>;
// The files that a pull request of the upstream changes, as GitHub lists them. `too_large` when
// GitHub does not list all. `done` is called exactly once, on any thread.
using ListChangedFiles = std::function<void(std::int64_t pr_number, GotChangedFiles done)>;

// GET /repos/{owner}/{repo}/pulls/{number}/files as the App, page after page, in at most `longest`
// altogether: the dispatch that waits for it holds a lease. `app` outlives the calls.
[[nodiscard]] ListChangedFiles list_changed_files(
    github::App& app, base::RepoName upstream,
    std::chrono::milliseconds longest = std::chrono::seconds{30});

// Before `inner`: leaves out pull requests of which no changed file passes the backend's `paths`.
// What cannot be found out does not lose the event: it is sent. Thread-safe.
class PathFilter final : public DispatchTarget {
 public:
  PathFilter(DispatchTarget& inner, const AllowlistFile& allowlist, ListChangedFiles list)
      : inner_{inner},
        allowlist_{allowlist},
        list_{std::move(list)},
        lists_{std::make_shared<Lists>()} {}
  void send(Dispatch dispatch, std::function<void(Answer)> done) override;
  [[nodiscard]] std::size_t room() const override { return inner_.room(); }

 private:
  // By delivery: its dispatches ask for the same list, the later ones while the first still does.
  struct List {
    std::shared_ptr<const ChangedFiles> files;  // null while it is asked for
    std::vector<GotChangedFiles> waiting;
  };
  struct Lists {
    std::mutex mutex;
    std::map<std::string, List> by_delivery;
    std::deque<std::string> known;  // the oldest first
  };
  void files_of(const Dispatch& dispatch, GotChangedFiles done);

  DispatchTarget& inner_;
  const AllowlistFile& allowlist_;
  const ListChangedFiles list_;
  std::shared_ptr<Lists> lists_;  // shared with calls in progress
};

}  // namespace crosscheck::relay
