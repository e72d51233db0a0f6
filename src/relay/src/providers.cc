#include "crosscheck/relay/providers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "crosscheck/base/yaml.h"

namespace crosscheck::relay {
namespace {

using base::Fault;
using base::Result;
using base::yaml::Node;
using Kind = base::yaml::Node::Kind;
namespace json = base::json;

constexpr std::size_t k_shown = 100;  // of an id or claim in a message

std::string shown(std::string_view text) { return "'" + base::to_utf8(text, k_shown) + "'"; }

class Parser {
 public:
  explicit Parser(std::string_view source) : source_{source} {}

  Result<Providers> parse(const Node& root) {
    if (root.is(Kind::null)) return Providers{};
    if (!root.is(Kind::mapping)) return fail(root, "expected a mapping", "begin with `providers:`");
    const Node* all = root.find("providers");
    if (all != nullptr && !all->is(Kind::null)) {
      if (!all->is(Kind::mapping)) return fail(*all, "providers: expected a mapping");
      const Node* buildkite = all->find("buildkite");
      if (buildkite != nullptr && !buildkite->is(Kind::null)) {
        if (!buildkite->is(Kind::mapping))
          return fail(*buildkite, "providers.buildkite: expected a mapping");
        if (const Node* map = buildkite->find("repo_map"); map != nullptr)
          if (auto done = pipelines("providers.buildkite.repo_map", *map); !done)
            return tl::unexpected(done.error());
      }
    }
    if (const Node* map = root.find("buildkite"); map != nullptr && found_.size() == 0)
      if (auto done = pipelines("buildkite", *map); !done) return tl::unexpected(done.error());
    return std::move(found_);
  }

 private:
  [[nodiscard]] tl::unexpected<base::Error> fail(const Node& node, std::string message,
                                                 std::string remedy = {}) const {
    return base::yaml::fail_at(source_, node, std::move(message), std::move(remedy));
  }

  Result<void> pipelines(const std::string& place, const Node& map) {
    if (map.is(Kind::null)) return {};  // all entries are commented out
    if (!map.is(Kind::mapping))
      return fail(map, place + ": expected a mapping of pipelines",
                  "write `organization_id/pipeline_id: owner/repo`");
    for (const auto& [key, value] : map.entries) {
      const std::string where = place + ": " + shown(key.text);
      const auto slash = key.text.find('/');
      std::string organization = key.text.substr(0, slash);
      std::string pipeline = slash == std::string::npos ? "" : key.text.substr(slash + 1);
      if (organization.empty() || pipeline.empty())
        return fail(key, where + " is not organization_id/pipeline_id",
                    "take both ids from the pipeline's settings on Buildkite");
      auto entry = read_pipeline(where, value);
      if (!entry) return tl::unexpected(entry.error());
      entry->line = key.line;
      if (!found_.add(std::move(organization), std::move(pipeline), std::move(*entry)))
        return fail(key, where + " stands twice");
    }
    return {};
  }

  Result<Pipeline> read_pipeline(const std::string& where, const Node& value) const {
    const Node* name = value.is(Kind::mapping) ? value.find("repo") : &value;
    if (name == nullptr || !name->is(Kind::text))
      return fail(name == nullptr ? value : *name, where + ": expected a repository",
                  "write `owner/repo`, or `{repo: owner/repo, required_claims: {…}}`");
    auto repo = base::RepoName::parse(name->text);
    if (!repo)
      return fail(*name, where + ": " + shown(name->text) + " is not a repository",
                  "write `owner/repo`");
    Pipeline entry{.repo = std::move(*repo)};
    if (!value.is(Kind::mapping)) return entry;
    for (const auto& [key, claims] : value.entries) {
      if (key.text == "repo") continue;
      // A key spelt wrongly would demand nothing of anybody.
      if (key.text != "required_claims")
        return fail(key, where + ": unknown key " + shown(key.text), "`repo`, `required_claims`");
      if (auto done = read_claims(where, claims, entry); !done) return tl::unexpected(done.error());
    }
    return entry;
  }

  Result<void> read_claims(const std::string& where, const Node& claims, Pipeline& entry) const {
    if (claims.is(Kind::null)) return {};
    if (!claims.is(Kind::mapping))
      return fail(claims, where + ": required_claims: expected a mapping of claim to values",
                  "write `build_branch: [main]`");
    for (const auto& [claim, values] : claims.entries) {
      std::vector<std::string>& allowed = entry.required_claims[claim.text];
      if (values.is(Kind::text)) {
        allowed.push_back(values.text);
        continue;
      }
      if (!values.is(Kind::sequence) || values.items.empty() ||
          !std::ranges::all_of(values.items, [](const Node& one) { return one.is(Kind::text); }))
        return fail(values, where + ": required_claims: " + shown(claim.text) +
                                ": expected a value or a list of values");
      for (const Node& one : values.items) allowed.push_back(one.text);
    }
    return {};
  }

  const std::string_view source_;
  Providers found_;
};

// A claim's value as the file would write it; nothing of what has parts.
std::optional<std::string> text_of(const json::value* claim) {
  if (claim == nullptr || claim->is_null() || claim->is_structured()) return std::nullopt;
  if (const auto* text = claim->if_string()) return std::string{*text};
  return base::canonical_json(*claim);
}

}  // namespace

const Pipeline* Providers::find(std::string_view organization_id,
                                std::string_view pipeline_id) const {
  const auto found = pipelines_.find({std::string{organization_id}, std::string{pipeline_id}});
  return found == pipelines_.end() ? nullptr : &found->second;
}

bool Providers::add(std::string organization_id, std::string pipeline_id, Pipeline pipeline) {
  return pipelines_
      .try_emplace({std::move(organization_id), std::move(pipeline_id)}, std::move(pipeline))
      .second;
}

Result<Providers> parse_providers(std::string_view text, std::string_view source) {
  // As a file is for a moment while it is written: taken over, it would refuse every pipeline.
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return base::yaml::fail_at(source, Node{}, "there is nothing in it",
                               "`providers: {}` maps nobody");
  const auto root = base::yaml::parse(text, source);
  if (!root) return tl::unexpected(root.error());
  return Parser{source}.parse(*root);
}

Result<json::object> map_pipeline(json::object claims, const Providers& providers) {
  const auto organization = text_of(claims.if_contains("organization_id"));
  const auto pipeline = text_of(claims.if_contains("pipeline_id"));
  if (!organization || !pipeline)
    return base::fail(Fault::unauthorized,
                      "the token has no claims organization_id and pipeline_id",
                      "ask for it with `--claim organization_id,pipeline_id`");
  const Pipeline* entry = providers.find(*organization, *pipeline);
  if (entry == nullptr)
    return base::fail(Fault::forbidden,
                      "pipeline " + shown(*pipeline) + " of organization " + shown(*organization) +
                          " is not mapped to a repository",
                      "have it entered in the file that ci_providers_url names");
  for (const auto& [name, allowed] : entry->required_claims) {
    const auto value = text_of(claims.if_contains(name));
    if (!value || std::ranges::find(allowed, *value) == allowed.end())
      return base::fail(Fault::forbidden, "claim " + shown(name) +
                                              (value ? " is " + shown(*value) : " is missing") +
                                              ", which this pipeline may not report with");
  }
  claims["repository"] = entry->repo.full_name();
  return claims;
}

}  // namespace crosscheck::relay
