#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"

// Embeddings and summaries by a model behind an OpenAI-compatible endpoint.
namespace crosscheck::memory {

struct EndpointAnswer {
  int status = 0;
  std::string body;
  std::optional<std::string> retry_after = {};
};
// POSTs a JSON body to a path below the endpoint's address ("/v1/embeddings") and waits.
using Ask =
    std::function<base::Result<EndpointAnswer>(std::string_view path, const std::string& body)>;

[[nodiscard]] std::string embeddings_request(const std::string& model,
                                             const std::vector<std::string>& texts);
// As many vectors as `texts` were asked for, in their order, all of the same length and finite.
// `invalid_input` says what is wrong with an answer.
[[nodiscard]] base::Result<std::vector<std::vector<float>>> read_embeddings(std::string_view body,
                                                                            std::size_t texts);
[[nodiscard]] std::string summary_request(const std::string& model, const std::string& text);
// One or two lines; `invalid_input` where the answer has none.
[[nodiscard]] base::Result<std::string> read_summary(std::string_view body);

struct EndpointOptions {
  Ask ask;
  std::string embedding_model = {};  // empty: no embeddings
  std::string summary_model = {};    // empty: no summaries
  std::size_t budget = 0;            // requests, those that fail as well; 0: as many as it takes
  // Waits before a request is made again, for as long as the endpoint asks.
  std::function<void(int seconds)> wait = {};
};

struct EndpointReport {
  std::size_t requests = 0;
  std::size_t embedded = 0;           // tests, this time
  std::size_t summarised = 0;         // tests, this time
  std::size_t kept = 0;               // answers of earlier times that still hold
  std::size_t left = 0;               // answers that are still to be asked for
  std::size_t failed = 0;             // requests without a usable answer
  std::vector<std::string> problems;  // what was wrong with them, each once
};

}  // namespace crosscheck::memory
