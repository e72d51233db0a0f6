#include "crosscheck/relay/path_filter.h"

#include <algorithm>
#include <utility>

#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"

namespace crosscheck::relay {
namespace {

using base::Fault;
namespace json = base::json;

constexpr std::size_t k_page = 100;
constexpr int k_last_page = 30;  // GitHub lists 3,000 files and no more
constexpr std::size_t k_kept = 64;

struct Listing : std::enable_shared_from_this<Listing> {
  github::App& app;
  const base::RepoName upstream;
  const std::string path;
  const std::chrono::steady_clock::time_point until;
  ChangedFiles files;
  GotChangedFiles done;

  Listing(github::App& a, base::RepoName u, std::int64_t pr_number,
          std::chrono::milliseconds longest, GotChangedFiles d)
      : app{a},
        upstream{std::move(u)},
        path{"/repos/" + upstream.full_name() + "/pulls/" + std::to_string(pr_number) + "/files"},
        until{std::chrono::steady_clock::now() + longest},
        done{std::move(d)} {}

  void ask(int page) {
    app.get(upstream,
            path + "?per_page=" + std::to_string(k_page) + "&page=" + std::to_string(page), until,
            [self = shared_from_this(), page](const base::Result<std::string>& body) {
              self->take(page, body);
            });
  }

  void take(int page, const base::Result<std::string>& answer) {
    const auto fail = [&](const base::Error& error) {
      done(base::fail(error.fault, "changed files: " + error.message));
    };
    if (!answer) return fail(answer.error());
    const auto body = base::parse_json(*answer, "answer");
    if (!body) return fail(body.error());
    const auto* list = body->if_array();
    if (list == nullptr) return fail({Fault::invalid_input, "not a list"});
    for (const json::value& entry : *list) {
      for (const char* name : {"filename", "previous_filename"})
        if (auto file = base::optional_string(entry, name); file && *file)
          files.push_back(std::move(**file));
    }
    if (list->size() < k_page) return done(std::make_shared<const ChangedFiles>(std::move(files)));
    if (page >= k_last_page) return fail({Fault::too_large, "more than GitHub lists"});
    ask(page + 1);
  }
};

}  // namespace

ListChangedFiles list_changed_files(github::App& app, base::RepoName upstream,
                                    std::chrono::milliseconds longest) {
  return [&app, upstream = std::move(upstream), longest](std::int64_t pr_number,
                                                         GotChangedFiles done) {
    std::make_shared<Listing>(app, upstream, pr_number, longest, std::move(done))->ask(1);
  };
}

void PathFilter::files_of(const Dispatch& dispatch, GotChangedFiles done) {
  const std::string delivery = dispatch.delivery_id;
  {
    std::unique_lock lock{lists_->mutex};
    const auto [found, is_new] = lists_->by_delivery.try_emplace(delivery);
    if (const auto files = found->second.files) {
      lock.unlock();
      return done(files);
    }
    found->second.waiting.push_back(std::move(done));
    if (!is_new) return;
  }
  list_(*dispatch.pr_number, [lists = lists_, delivery](auto files) {
    std::vector<GotChangedFiles> waiting;
    {
      const std::lock_guard lock{lists->mutex};
      List& list = lists->by_delivery[delivery];
      waiting.swap(list.waiting);
      if (files) {
        list.files = *files;
        lists->known.push_back(delivery);
        if (lists->known.size() > k_kept) {
          lists->by_delivery.erase(lists->known.front());
          lists->known.pop_front();
        }
      } else {
        lists->by_delivery.erase(delivery);
      }
    }
    for (const GotChangedFiles& each : waiting) each(files);
  });
}

void PathFilter::send(Dispatch dispatch, std::function<void(Answer)> done) {
  const auto allowlist = allowlist_.current();
  const Backend* backend = allowlist->find(dispatch.repo);
  if (backend == nullptr || backend->paths.empty() || dispatch.event_type != "pull_request" ||
      !dispatch.pr_number) {
    inner_.send(std::move(dispatch), std::move(done));
    return;
  }
  const auto shared = std::make_shared<Dispatch>(std::move(dispatch));
  files_of(*shared, [&inner = inner_, paths = backend->paths, shared,
                     done = std::move(done)](const auto& files) {
    if (files &&
        std::ranges::none_of(**files, [&](const std::string& file) { return paths.pass(file); })) {
      done({Answer::Kind::unwanted, std::nullopt, "no changed file passes the backend's `paths`"});
      return;
    }
    if (!files)
      base::log::warning("dispatch.unfiltered", {{"delivery", shared->delivery_id},
                                                 {"repo", shared->repo.full_name()},
                                                 {"reason", files.error().message}});
    inner.send(*shared, done);
  });
}

}  // namespace crosscheck::relay
