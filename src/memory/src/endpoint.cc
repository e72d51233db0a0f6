#include "crosscheck/memory/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "impl.h"

namespace crosscheck::memory {
namespace {

using base::fail;
using base::Fault;
using base::Result;
namespace json = base::json;

constexpr std::size_t k_batch = 64;           // texts of one request
constexpr std::size_t k_text_limit = 2000;    // bytes of one text
constexpr std::size_t k_summary_limit = 400;  // bytes that are kept of one
constexpr std::size_t k_most_dimensions = 8192;
constexpr int k_tries = 3;                      // of one request
constexpr int k_longest_wait = 60;              // seconds
constexpr std::size_t k_failures_in_a_row = 3;  // then the endpoint is left alone
constexpr std::string_view k_prompt =
    "In one sentence of at most 25 words, say what this test of PyTorch checks. Answer with the "
    "sentence alone.";

tl::unexpected<base::Error> nonsense(std::string what) {
  return fail(Fault::invalid_input, std::move(what), "look whether it is an OpenAI-compatible API");
}

// The endpoint's own words on an error, short.
std::string said(std::string_view body) {
  const auto parsed = base::parse_json(body, "answer");
  if (parsed)
    if (const json::value* message = base::find(*parsed, "error.message");
        message != nullptr && message->is_string())
      return ": " + base::to_utf8(message->as_string(), 200);
  return {};
}

int seconds_to_wait(const EndpointAnswer& answer) {
  int seconds = 1;
  if (answer.retry_after) {
    const std::string& text = *answer.retry_after;
    std::from_chars(text.data(), text.data() + text.size(), seconds);
  }
  return std::clamp(seconds, 0, k_longest_wait);
}

struct Item {
  std::string text_digest;  // raw
  std::string text;         // what the model is given
};

class Asking {
 public:
  Asking(SQLite::Database& db, const EndpointOptions& options) : db_{db}, options_{options} {}

  Result<EndpointReport> run() {
    if (!options_.embedding_model.empty()) embed();
    if (!options_.summary_model.empty()) summarise();
    return std::move(report_);
  }

 private:
  bool may_ask() const {
    return !gave_up_ && (options_.budget == 0 || report_.requests < options_.budget);
  }

  void problem(std::string what) {
    if (std::ranges::find(report_.problems, what) == report_.problems.end())
      report_.problems.push_back(std::move(what));
  }

  // Nothing where there is no usable answer; why is in the report.
  template <class Read>
  auto ask(std::string_view path, const std::string& body, Read&& read)
      -> std::optional<typename decltype(read(std::string_view{}))::value_type> {
    for (int tries = 0; tries < k_tries && may_ask(); ++tries) {
      ++report_.requests;
      const auto answer = options_.ask(path, body);
      if (answer && answer->status == 200) {
        if (auto good = read(answer->body)) {
          in_a_row_ = 0;
          return *std::move(good);
        } else {
          ++report_.failed;
          problem(fmt::format("{}: {}", path, good.error().message));
          break;  // it would say the same again
        }
      }
      ++report_.failed;
      if (!answer) {
        problem(fmt::format("{}: {}", path, answer.error().message));
        continue;
      }
      problem(fmt::format("{}: status {}{}", path, answer->status, said(answer->body)));
      if (answer->status != 429 && answer->status < 500) break;
      if (tries + 1 < k_tries && may_ask() && options_.wait)
        options_.wait(seconds_to_wait(*answer));
    }
    if (++in_a_row_ == k_failures_in_a_row) {
      gave_up_ = true;
      problem("given up after three requests in a row without a usable answer");
    }
    return std::nullopt;
  }

  // Of tests that are kept and have no such answer yet, one for each text, in order of their place.
  std::vector<Item> todo(std::string_view kind, const std::string& model,
                         const std::string& prompt) {
    SQLite::Statement count{
        db_,
        "SELECT count(DISTINCT v.text) FROM memory_vector v JOIN memory_answer a ON a.text = "
        "v.text AND a.kind = ? AND a.model = ? AND a.prompt = ?"};
    SQLite::Statement rows{
        db_,
        "SELECT v.text,s.path,d.class,d.name,d.decorators,d.apis,d.symbols,d.doc,d.comment FROM "
        "memory_vector v JOIN memory_definition d ON d.id = v.definition JOIN memory_source s ON "
        "s.id = d.source JOIN memory_test t ON t.definition = d.id WHERE t.rule = '' AND NOT "
        "EXISTS "
        "(SELECT 1 FROM memory_answer a WHERE a.text = v.text AND a.kind = ? AND a.model = ? AND "
        "a.prompt = ?) GROUP BY v.text ORDER BY s.path, d.line"};
    for (SQLite::Statement* statement : {&count, &rows}) {
      statement->bind(1, std::string{kind});
      statement->bind(2, model);
      statement->bind(3, prompt.data(), static_cast<int>(prompt.size()));
    }
    if (count.executeStep())
      report_.kept += static_cast<std::size_t>(count.getColumn(0).getInt64());
    std::vector<Item> items;
    while (rows.executeStep()) {
      Definition definition;
      definition.class_name = text_of(rows, 2);
      definition.name = text_of(rows, 3);
      definition.decorators = split(text_of(rows, 4));
      definition.apis = split(text_of(rows, 5));
      definition.symbols = split(text_of(rows, 6));
      definition.doc = text_of(rows, 7);
      definition.comment = text_of(rows, 8);
      items.push_back(
          {std::string{blob_of(rows, 0)}, described(std::string{text_of(rows, 1)}, definition)});
    }
    return items;
  }

  static std::string described(const std::string& path, const Definition& definition) {
    std::string text =
        fmt::format("{} in {}\n{}", qualified_name(definition), path, summary_of(definition));
    if (!definition.doc.empty()) text += "\n" + definition.doc;
    if (!definition.comment.empty()) text += "\n" + definition.comment;
    text += "\nNames:";
    for (const std::string& symbol : definition.symbols) text += " " + symbol;
    return base::to_utf8(text, k_text_limit);
  }

  // Committed at once: what was answered is never asked again.
  void keep(std::string_view kind, const std::string& model, const std::string& prompt,
            const std::vector<std::pair<std::string, std::string>>& values) {
    SQLite::Transaction transaction{db_, SQLite::TransactionBehavior::IMMEDIATE};
    SQLite::Statement put{db_, "INSERT OR REPLACE INTO memory_answer VALUES (?,?,?,?,?)"};
    for (const auto& [text, value] : values) {
      put.reset();
      put.bind(1, std::string{kind});
      put.bind(2, model);
      put.bind(3, prompt.data(), static_cast<int>(prompt.size()));
      put.bind(4, text.data(), static_cast<int>(text.size()));
      put.bind(5, value.data(), static_cast<int>(value.size()));
      put.exec();
    }
    transaction.commit();
  }

  // What this model's vectors have; 0: there are none.
  std::size_t dimensions(const std::string& model) {
    SQLite::Statement row{db_,
                          "SELECT length(value) FROM memory_answer WHERE kind = 'embedding' AND "
                          "model = ? LIMIT 1"};
    row.bind(1, model);
    return row.executeStep() ? static_cast<std::size_t>(row.getColumn(0).getInt64()) : 0;
  }

  void embed() {
    const std::string& model = options_.embedding_model;
    const std::vector<Item> items = todo("embedding", model, {});
    std::size_t wanted = dimensions(model);
    std::size_t done = 0;
    for (std::size_t at = 0; at < items.size() && may_ask(); at += k_batch) {
      const std::size_t stop = std::min(items.size(), at + k_batch);
      std::vector<std::string> texts;
      for (std::size_t i = at; i < stop; ++i) texts.push_back(items[i].text);
      const auto vectors = ask("/v1/embeddings", embeddings_request(model, texts),
                               [&](std::string_view body) -> Result<std::vector<Vector>> {
                                 return read_vectors(body, texts.size(), wanted);
                               });
      if (!vectors) continue;
      wanted = vectors->front().size();
      std::vector<std::pair<std::string, std::string>> values;
      for (std::size_t i = at; i < stop; ++i) {
        const Vector& vector = (*vectors)[i - at];
        values.emplace_back(items[i].text_digest, std::string(vector.begin(), vector.end()));
      }
      keep("embedding", model, {}, values);
      done += values.size();
    }
    report_.embedded += done;
    report_.left += items.size() - done;
  }

  static Result<std::vector<Vector>> read_vectors(std::string_view body, std::size_t texts,
                                                  std::size_t wanted) {
    const auto values = read_embeddings(body, texts);
    if (!values) return tl::unexpected(values.error());
    std::vector<Vector> vectors;
    for (const auto& value : *values) {
      if (wanted != 0 && value.size() != wanted)
        return nonsense(fmt::format("vectors of {} dimensions, where this model's had {} before",
                                    value.size(), wanted));
      vectors.push_back(quantised(value));
      if (vectors.back().empty()) return nonsense("a vector that is all zero");
    }
    return vectors;
  }

  void summarise() {
    const std::string& model = options_.summary_model;
    const std::string prompt = base::from_hex(base::sha256_hex(k_prompt)).value_or("");
    const std::vector<Item> items = todo("summary", model, prompt);
    std::size_t done = 0;
    for (const Item& item : items) {
      if (!may_ask()) break;
      const auto summary =
          ask("/v1/chat/completions", summary_request(model, item.text), read_summary);
      if (!summary) continue;
      keep("summary", model, prompt, {{item.text_digest, *summary}});
      ++done;
    }
    report_.summarised += done;
    report_.left += items.size() - done;
  }

  SQLite::Database& db_;
  const EndpointOptions& options_;
  EndpointReport report_;
  std::size_t in_a_row_ = 0;
  bool gave_up_ = false;
};

}  // namespace

std::string embeddings_request(const std::string& model, const std::vector<std::string>& texts) {
  return json::serialize(json::object{{"model", model},
                                      {"input", json::array(texts.begin(), texts.end())},
                                      {"encoding_format", "float"}});
}

Result<std::vector<std::vector<float>>> read_embeddings(std::string_view body, std::size_t texts) {
  const auto parsed = base::parse_json(body, "the answer");
  if (!parsed) return nonsense("the answer is no JSON");
  const json::value* data = base::find(*parsed, "data");
  if (data == nullptr || !data->is_array()) return nonsense("the answer has no list 'data'");
  if (data->as_array().size() != texts)
    return nonsense(fmt::format("{} vectors for {} texts", data->as_array().size(), texts));
  std::vector<std::vector<float>> vectors(texts);
  std::size_t place = 0;
  for (const json::value& entry : data->as_array()) {
    const json::value* values = base::find(entry, "embedding");
    if (values == nullptr || !values->is_array() || values->as_array().empty() ||
        values->as_array().size() > k_most_dimensions)
      return nonsense("an entry without a vector of 1 to 8192 dimensions");
    std::size_t index = place++;
    if (const json::value* given = base::find(entry, "index"); given != nullptr) {
      if (!given->is_int64() || given->as_int64() < 0 ||
          static_cast<std::size_t>(given->as_int64()) >= texts)
        return nonsense("an entry whose 'index' is of no text");
      index = static_cast<std::size_t>(given->as_int64());
    }
    if (!vectors[index].empty()) return nonsense("two vectors for one text");
    for (const json::value& value : values->as_array()) {
      const double number = value.is_number() ? value.to_number<double>() : std::nan("");
      if (!(std::abs(number) <= std::numeric_limits<float>::max()))
        return nonsense("a vector with what is no finite number");
      vectors[index].push_back(static_cast<float>(number));
    }
    if (vectors[index].size() != values->as_array().size() ||
        values->as_array().size() !=
            base::find(data->as_array()[0], "embedding")->as_array().size())
      return nonsense("vectors of different dimensions");
  }
  return vectors;
}

std::string summary_request(const std::string& model, const std::string& text) {
  return json::serialize(
      json::object{{"model", model},
                   {"temperature", 0},
                   {"max_tokens", 80},
                   {"messages", json::array{json::object{{"role", "system"}, {"content", k_prompt}},
                                            json::object{{"role", "user"}, {"content", text}}}}});
}

Result<std::string> read_summary(std::string_view body) {
  const auto parsed = base::parse_json(body, "the answer");
  if (!parsed) return nonsense("the answer is no JSON");
  const json::value* choices = base::find(*parsed, "choices");
  if (choices == nullptr || !choices->is_array() || choices->as_array().empty())
    return nonsense("the answer has no list 'choices'");
  const json::value* content = base::find(choices->as_array()[0], "message.content");
  if (content == nullptr || !content->is_string()) return nonsense("a choice without content");
  std::string line = base::to_utf8(content->as_string(), k_summary_limit);
  std::ranges::replace(line, '\n', ' ');
  std::ranges::replace(line, '\t', ' ');
  const auto begin = line.find_first_not_of(' ');
  if (begin == std::string::npos) return nonsense("an empty summary");
  return line.substr(begin, line.find_last_not_of(' ') - begin + 1);
}

Result<EndpointReport> Memory::ask_endpoint(const EndpointOptions& options) {
  return impl_->guard([&] {
    impl_->forget_vectors();
    return Asking{impl_->db(), options}.run();
  });
}

}  // namespace crosscheck::memory
