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
  net::Client& client;
  std::string url;
  ChangedFiles files;
  GotChangedFiles done;

  Listing(net::Client& c, std::string u, GotChangedFiles d)
      : client{c}, url{std::move(u)}, done{std::move(d)} {}

  void ask(int page) {
    net::ClientRequest request;
    request.url = url + "?per_page=" + std::to_string(k_page) + "&page=" + std::to_string(page);
    request.headers = {{"Accept", "application/vnd.github+json"}};
    client.send(std::move(request), [self = shared_from_this(), page](net::ClientResult result) {
      self->take(page, std::move(result));
    });
  }

  void take(int page, net::ClientResult result) {
    if (!result) return done(tl::unexpected(result.error().error));
    if (result->status != 200)
      return done(base::fail(Fault::unavailable,
                             "changed files: GitHub answered " + std::to_string(result->status)));
    const auto body = base::parse_json(result->body, "changed files");
    if (!body) return done(tl::unexpected(body.error()));
    const auto* list = body->if_array();
    if (list == nullptr) return done(base::fail(Fault::invalid_input, "changed files: not a list"));
    for (const json::value& entry : *list) {
      for (const char* name : {"filename", "previous_filename"})
        if (auto file = base::optional_string(entry, name); file && *file)
          files.push_back(std::move(**file));
    }
    if (list->size() < k_page) return done(std::make_shared<const ChangedFiles>(std::move(files)));
    if (page >= k_last_page)
      return done(base::fail(Fault::too_large, "changed files: more than GitHub lists"));
    ask(page + 1);
  }
};

}  // namespace

ListChangedFiles list_changed_files(net::Client& client, std::string api_url,
                                    base::RepoName upstream) {
  return [&client, prefix = api_url + "/repos/" + upstream.full_name() + "/pulls/"](
             std::int64_t pr_number, GotChangedFiles done) {
    std::make_shared<Listing>(client, prefix + std::to_string(pr_number) + "/files",
                              std::move(done))
        ->ask(1);
  };
}

void PathFilter::send(Dispatch dispatch, std::function<void(Answer)> done) {
  const auto allowlist = allowlist_.current();
  const Backend* backend = allowlist->find(dispatch.repo);
  if (backend == nullptr || backend->paths.empty() || dispatch.event_type != "pull_request" ||
      !dispatch.pr_number) {
    inner_.send(std::move(dispatch), std::move(done));
    return;
  }
  const auto decide = [&inner = inner_, paths = backend->paths](
                          Dispatch d, const ChangedFiles& files, std::function<void(Answer)> then) {
    if (std::ranges::any_of(files, [&](const std::string& file) { return paths.pass(file); }))
      inner.send(std::move(d), std::move(then));
    else
      then({Answer::Kind::unwanted, std::nullopt, "no changed file passes the backend's `paths`"});
  };
  std::shared_ptr<const ChangedFiles> known;
  {
    const std::lock_guard lock{cache_->mutex};
    if (const auto found = cache_->files.find(dispatch.delivery_id); found != cache_->files.end())
      known = found->second;
  }
  if (known) return decide(std::move(dispatch), *known, std::move(done));
  const std::int64_t pr = *dispatch.pr_number;
  list_(pr,
        [&inner = inner_, cache = cache_, decide, dispatch = std::move(dispatch),
         done = std::move(done)](base::Result<std::shared_ptr<const ChangedFiles>> files) mutable {
          if (!files) {
            base::log::warning("dispatch.unfiltered", {{"delivery", dispatch.delivery_id},
                                                       {"repo", dispatch.repo.full_name()},
                                                       {"reason", files.error().message}});
            inner.send(std::move(dispatch), std::move(done));
            return;
          }
          {
            const std::lock_guard lock{cache->mutex};
            if (cache->files.emplace(dispatch.delivery_id, *files).second) {
              cache->order.push_back(dispatch.delivery_id);
              if (cache->order.size() > k_kept) {
                cache->files.erase(cache->order.front());
                cache->order.pop_front();
              }
            }
          }
          decide(std::move(dispatch), **files, std::move(done));
        });
}

}  // namespace crosscheck::relay
