#include <fmt/format.h>

#include <cstdio>

#include "command.h"
#include "config_files.h"
#include "crosscheck/base/json.h"
#include "crosscheck/memory/memory.h"
#include "memory_options.h"

namespace crosscheck::cli {
namespace {

namespace json = base::json;

struct Options {
  std::vector<std::string> words;
  std::string memory;
  std::size_t limit = 10;
  bool dropped = false;
  std::string by = "both";
  EndpointInput endpoint;
  std::vector<std::string> configs;
  Where where;
};

json::object to_json(const memory::Hit& hit) {
  json::object matched;
  for (const auto& [field, words] : hit.matched)
    matched[field] = json::array(words.begin(), words.end());
  json::object object{{"file", hit.path},
                      {"line", hit.line},
                      {"last_line", hit.last_line},
                      {"name", hit.name},
                      {"kind", memory::to_string(hit.kind)},
                      {"score", hit.score},
                      {"words_rank", hit.words_rank},
                      {"meaning_rank", hit.meaning_rank},
                      {"likeness", hit.likeness},
                      {"model_rank", hit.model_rank},
                      {"matched", std::move(matched)},
                      {"variants", hit.variants}};
  if (!hit.summary.empty()) object["summary"] = hit.summary;
  if (!hit.summary_model.empty()) object["summary_model"] = hit.summary_model;
  if (!hit.doc.empty()) object["doc"] = hit.doc;
  if (!hit.rule.empty()) object["rule"] = hit.rule;
  return object;
}

std::string why(const memory::Hit& hit) {
  std::string text;
  for (const auto& [field, words] : hit.matched) {
    text += (text.empty() ? "" : "; ") + field + ":";
    for (const std::string& word : words) text += " " + word;
  }
  std::string places;
  const auto place = [&](const char* by, std::size_t rank) {
    if (rank > 0) places += fmt::format("{}{}: {}", places.empty() ? "" : ", ", by, rank);
  };
  place("words", hit.words_rank);
  place("meaning", hit.meaning_rank);
  if (hit.meaning_rank > 0) places += fmt::format(" at {:.2f}", hit.likeness);
  place("model", hit.model_rank);
  if (!places.empty()) text += fmt::format("{}({})", text.empty() ? "" : "  ", places);
  return text;
}

// The definitions that the configuration gives one of these modes, by a collected test or, where
// none was collected, by name. What it does not govern has no mode.
base::Result<std::vector<std::int64_t>> of_mode(const Options& options, memory::Memory& memory,
                                                const std::vector<std::string>& modes) {
  const auto config = load_configs(options.configs);
  if (!config) return tl::unexpected(config.error());
  const auto known = circumstances(options.where);
  if (!known) return tl::unexpected(known.error());
  const auto tests = memory.tests();
  if (!tests) return tl::unexpected(tests.error());
  const config::Governor governor{*config, *known};
  std::vector<std::int64_t> found;
  for (const auto& [definition, test] : *tests) {
    base::TestId id{test.file, test.class_name, test.method, test.variant};
    // Of a whole checkout the memory has test/…, and a suite does not.
    if (governor.find_file(id.file) == nullptr && id.file.starts_with("test/")) id.file.erase(0, 5);
    const config::Ruling ruling = governor.rule(config::collected_test(id, test.node_id));
    if (ruling.basis == config::Basis::ungoverned || ruling.basis == config::Basis::tied) continue;
    if (std::ranges::find(modes, base::to_string(ruling.mode)) != modes.end())
      found.push_back(definition);
  }
  return found;
}

// An endpoint that does not answer costs only its part of the ranking.
base::Result<void> ask_model(const Options& options, memory::Query& query) {
  if (options.endpoint.url.empty() || query.by == memory::By::words || query.words.empty())
    return {};
  const auto ask = asker(options.endpoint);
  if (!ask) return tl::unexpected(ask.error());
  const auto unused = [](const std::string& why) {
    std::fprintf(stderr, "the endpoint is not used: %s\n", base::to_utf8(why).c_str());
    return base::Result<void>{};
  };
  const auto answer =
      (*ask)("/v1/embeddings",
             memory::embeddings_request(options.endpoint.embedding_model, {query.words}));
  if (!answer) return unused(answer.error().message);
  if (answer->status != 200) return unused("status " + std::to_string(answer->status));
  auto vectors = memory::read_embeddings(answer->body, 1);
  if (!vectors) return unused(vectors.error().message);
  query.model = options.endpoint.embedding_model;
  query.embedding = std::move(vectors->front());
  return {};
}

base::Result<base::ExitCode> run_search(const Globals& globals, const Options& options) {
  std::string text;
  for (const std::string& word : options.words) text += (text.empty() ? "" : " ") + word;
  auto query = memory::parse_query(text);
  if (!query) return tl::unexpected(query.error());
  query->dropped = options.dropped;
  query->by = *memory::parse_by(options.by);
  const auto path = memory_path(globals, options.memory);
  if (!path) return tl::unexpected(path.error());
  auto memory = memory::Memory::open_existing(*path);
  if (!memory) return tl::unexpected(memory.error());
  if (const auto modes = query->filters.find("mode");
      modes != query->filters.end() && !options.configs.empty()) {
    auto found = of_mode(options, *memory, modes->second);
    if (!found) return tl::unexpected(found.error());
    query->of_mode = std::move(*found);
  }
  if (auto asked = ask_model(options, *query); !asked) return tl::unexpected(asked.error());
  const auto answer = memory->search(*query, options.limit);
  if (!answer) return tl::unexpected(answer.error());
  if (globals.json) {
    json::array hits;
    for (const auto& hit : answer->hits) hits.push_back(to_json(hit));
    std::printf("%s\n",
                base::pretty_json(json::object{{"found", answer->found},
                                               {"ignored", json::array(answer->ignored.begin(),
                                                                       answer->ignored.end())},
                                               {"hits", std::move(hits)}})
                    .c_str());
  } else {
    for (const auto& hit : answer->hits) {
      std::printf("%s:%d  %s", hit.path.c_str(), hit.line, hit.name.c_str());
      if (hit.variants > 0) std::printf("  (%zu collected)", hit.variants);
      if (!hit.rule.empty()) std::printf("  [dropped: %s]", hit.rule.c_str());
      std::printf("\n");
      for (std::string_view summary = hit.summary; !summary.empty();) {
        const auto stop = std::min(summary.find('\n'), summary.size());
        std::printf("    %s\n", std::string{summary.substr(0, stop)}.c_str());
        summary.remove_prefix(std::min(stop + 1, summary.size()));
      }
      if (const std::string matched = why(hit); !matched.empty())
        std::printf("    %s\n", matched.c_str());
    }
    if (!answer->ignored.empty()) {
      std::fprintf(stderr, "not looked for, since many tests have them:");
      for (const std::string& word : answer->ignored) std::fprintf(stderr, " %s", word.c_str());
      std::fprintf(stderr, "\n");
    }
    if (answer->found > answer->hits.size())
      std::fprintf(stderr, "%zu of %zu: --limit shows more\n", answer->hits.size(), answer->found);
  }
  return answer->found == 0 ? base::ExitCode::no : base::ExitCode::ok;
}

const Registration k_registration{
    "search", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command = app.add_subcommand("search", "Find tests in the repository memory");
      command
          ->add_option(
              "WORDS", options.words,
              "Words of code or prose, and filters: file: op: dtype: decorator: kind: mode:")
          ->required();
      add_memory_option(*command, options.memory);
      command->add_option("--limit", options.limit, "How many are shown")->capture_default_str();
      command->add_flag("--dropped", options.dropped, "Also tests that narrowing drops");
      command->add_option("--by", options.by, "What ranks the answers: words, meaning or both")
          ->check(CLI::IsMember({"words", "meaning", "both"}))
          ->capture_default_str();
      command
          ->add_option("--config", options.configs,
                       "The test configuration that mode: asks; again: merged with it")
          ->allow_extra_args(false);
      add_where(*command, options.where);
      add_endpoint_options(*command, options.endpoint, false);
      command->footer(
          "Exits 1 if nothing is found.\n"
          "Examples:\n  crosscheck search \"logaddexp numerical accuracy\"\n"
          "  crosscheck search view op:add dtype:float16 file:test_view_ops\n"
          "  crosscheck search mode:skip op:add --config test_configuration.yaml");
      command->callback([&] { action = [&] { return run_search(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
