#include "memory_options.h"

#include <memory>

#include "crosscheck/net/client.h"
#include "settings.h"

namespace crosscheck::cli {

void add_memory_option(CLI::App& command, std::string& path) {
  command.add_option("--memory", path,
                     "The repository memory, a SQLite file (default: beside the store, "
                     ".crosscheck/crosscheck.memory.db)");
}

base::Result<std::filesystem::path> memory_path(const Globals& globals, const std::string& given) {
  if (!given.empty()) return given;
  auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  if (url->starts_with("sqlite:")) url->erase(0, 7);
  std::filesystem::path path = *url;
  if (url->starts_with("postgresql://") || url->starts_with("postgres://")) path = Settings{}.db;
  return path.replace_extension(".memory.db");
}

void add_endpoint_options(CLI::App& command, EndpointInput& input, bool summaries) {
  command
      .add_option("--endpoint", input.url,
                  "An OpenAI-compatible endpoint, such as http://127.0.0.1:8080; its key, if it "
                  "wants one, is $CROSSCHECK_ENDPOINT_KEY")
      ->envname("CROSSCHECK_ENDPOINT_URL");
  command.add_option("--embedding-model", input.embedding_model, "The model that makes vectors")
      ->envname("CROSSCHECK_EMBEDDING_MODEL");
  if (summaries)
    command.add_option("--summary-model", input.summary_model, "The model that writes summaries")
        ->envname("CROSSCHECK_SUMMARY_MODEL");
  command.add_option("--endpoint-timeout", input.time_limit_s, "Seconds that one request may take")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
}

base::Result<memory::Ask> asker(const EndpointInput& input) {
  if (!input.url.starts_with("http://") && !input.url.starts_with("https://"))
    return base::fail(base::Fault::usage, "--endpoint: no http:// or https:// address",
                      "write it like http://127.0.0.1:8080, without /v1");
  if (input.embedding_model.empty() && input.summary_model.empty())
    return base::fail(base::Fault::usage, "--endpoint: no model is named",
                      "name one with --embedding-model or --summary-model");
  std::string base_url = input.url;
  while (base_url.ends_with('/')) base_url.pop_back();
  if (base_url.ends_with("/v1")) base_url.resize(base_url.size() - 3);
  const Environment environment = process_environment();
  const auto key = environment.find("CROSSCHECK_ENDPOINT_KEY");
  const std::string bearer =
      key == environment.end() || key->second.empty() ? "" : "Bearer " + key->second;
  const std::shared_ptr<net::Client> client = net::Client::create();
  return memory::Ask{
      [=, limit = std::chrono::seconds{input.time_limit_s}](
          std::string_view path, const std::string& body) -> base::Result<memory::EndpointAnswer> {
        net::ClientRequest request;
        request.method = "POST";
        request.url = base_url + std::string{path};
        request.headers.add("Content-Type", "application/json");
        if (!bearer.empty()) request.headers.add("Authorization", bearer);
        request.body = body;
        request.timeout = limit;
        request.body_limit = std::size_t{64} << 20;
        auto answer = client->send(std::move(request));
        if (!answer) return tl::unexpected(answer.error().error);
        memory::EndpointAnswer result{.status = answer->status, .body = std::move(answer->body)};
        if (const auto after = answer->headers.get("Retry-After")) result.retry_after = *after;
        return result;
      }};
}

}  // namespace crosscheck::cli
