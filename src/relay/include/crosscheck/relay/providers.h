#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/result.h"

// CI services whose tokens name no repository: a file says which one each of their pipelines
// reports for. It says nothing of whom to trust: issuers and their keys are settings.
namespace crosscheck::relay {

struct Pipeline {
  base::RepoName repo;
  // By claim, the values that will do; each of these claims must be in the token.
  std::map<std::string, std::vector<std::string>, std::less<>> required_claims = {};
  int line = 0;
};

// Immutable once parsed.
class Providers {
 public:
  // By Buildkite's ids (not their names, which can be given to another), to the letter.
  [[nodiscard]] const Pipeline* find(std::string_view organization_id,
                                     std::string_view pipeline_id) const;
  [[nodiscard]] std::size_t size() const { return pipelines_.size(); }
  // False when the two have an entry already.
  bool add(std::string organization_id, std::string pipeline_id, Pipeline pipeline);

 private:
  std::map<std::pair<std::string, std::string>, Pipeline> pipelines_;
};

inline constexpr std::size_t k_providers_limit = 1024 * 1024;  // bytes

// Reads `providers.buildkite.repo_map`, and where that has no entry the older `buildkite`, both a
// mapping of organization_id/pipeline_id to owner/repo or to {repo, required_claims}. All else in
// the file is passed over. Errors begin with `source`:line:column and name the entry.
[[nodiscard]] base::Result<Providers> parse_providers(std::string_view text,
                                                      std::string_view source);

// The claims of a verified Buildkite token with the repository that it speaks for as `repository`.
// Faults: `unauthorized` (it names no pipeline), `forbidden` (not mapped, or a required claim
// differs).
[[nodiscard]] base::Result<base::json::object> map_pipeline(base::json::object claims,
                                                            const Providers& providers);

}  // namespace crosscheck::relay
