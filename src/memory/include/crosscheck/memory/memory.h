#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/memory/endpoint.h"
#include "crosscheck/memory/rules.h"
#include "crosscheck/memory/tree.h"

// The repository memory: what a tree holds, in a SQLite file that other parts may keep tables in as
// well. Ours begin with `memory_`; they are made anew where their form is an older one.
namespace crosscheck::memory {

// A test as an inventory lists it: what is joined to the definition that it was made from.
struct Collected {
  std::string file = {};  // relative to the tree's root
  std::string class_name = {};
  std::string method = {};
  std::string variant = {};  // canonical JSON
  std::string op = {};       // of the variant; empty: none
  std::string dtype = {};
  std::string device = {};
  std::string node_id = {};
  std::int64_t line = 0;  // where the definition begins, by the object itself
  friend bool operator==(const Collected&, const Collected&) = default;
};

// With the definition that it hangs on. A test that none was collected of stands for itself:
// without a variant, its line and node id those of its definition.
struct Placed {
  std::int64_t definition = 0;
  Collected test;
};

struct IndexOptions {
  unsigned jobs = 1;
  const Narrowing* narrowing = nullptr;                  // none: the one of the last time stays
  std::optional<std::vector<Collected>> collected = {};  // none: those of the last time stay
  std::string subject = {};                              // what they were collected of
  bool mostly_placed = true;                      // refuse them where most have no definition here
  std::map<std::string, std::string> notes = {};  // kept for the caller, see `note`
  bool every_file = false;  // read also those whose time and size say that they are as they were
  std::function<void(std::size_t, std::size_t)> on_progress = {};  // files done, of
};

struct IndexReport {
  std::size_t files = 0;
  std::size_t read = 0;     // of them, parsed this time
  std::size_t removed = 0;  // files that are no more
  std::map<Kind, std::size_t> definitions;
  std::map<std::string, std::size_t> dropped;  // tests, by rule
  std::size_t kept = 0;                        // tests that no rule drops
  std::size_t variants = 0;
  std::size_t unplaced = 0;       // of them, without a definition
  std::vector<Problem> problems;  // sorted
};

// Why something is in the memory, or is not.
struct Explanation {
  std::string path;
  std::string name;  // "Class::method"; empty: the file
  Kind kind = Kind::test;
  int line = 0;
  std::string rule;  // empty: it is kept
  std::string reason;
  std::string because;
  std::string place;              // of the rule
  std::size_t tests = 0;          // of a file or class: how many it holds,
  std::size_t dropped_tests = 0;  // and how many of them are dropped
};

// What ranks the answers: words by BM25, meaning by the likeness of vectors, or both by reciprocal
// rank. The names are API.
enum class By : std::uint8_t { words, meaning, both };
[[nodiscard]] std::optional<By> parse_by(std::string_view name);

// What is asked of a search.
struct Query {
  std::string words;
  // Name to values: file, op, dtype, decorator, kind, mode. Of one name any value, of all names
  // one.
  std::map<std::string, std::vector<std::string>, std::less<>> filters;
  // The definitions that have one of the modes asked for: the caller's to find, see `tests`.
  std::optional<std::vector<std::int64_t>> of_mode = {};
  bool dropped = false;  // also tests that narrowing drops
  By by = By::both;
  // What a model makes of the words, to be compared with what it made of the tests.
  std::string model = {};
  std::vector<float> embedding = {};
};
inline constexpr std::string_view k_search_filters[] = {"decorator", "dtype", "file",
                                                        "kind",      "mode",  "op"};
// "relu op:add dtype:float32". `usage` names a filter that there is none of, and one without value.
[[nodiscard]] base::Result<Query> parse_query(std::string_view text);

struct Hit {
  std::int64_t id = 0;
  std::string path;
  int line = 0;
  int last_line = 0;
  Kind kind = Kind::test;
  std::string name;  // "Class::method"
  std::string doc;
  std::string summary;  // of a test: one or two lines
  double score = 0;     // greater is better; comparable within one search
  // Its place by each alone, from 1; 0: not found by it.
  std::size_t words_rank = 0;
  std::size_t meaning_rank = 0;
  double likeness = 0;         // the cosine, where meaning found it
  std::size_t model_rank = 0;  // by the query's model
  std::string summary_model;   // that wrote the summary; empty: none did
  std::map<std::string, std::vector<std::string>>
      matched;  // field to the query's words found in it
  std::size_t variants = 0;
  std::string rule;  // that drops it
};
struct Answer {
  std::vector<Hit> hits;
  std::size_t found = 0;  // definitions that match, before the limit
  // Words that so many definitions have that they were not looked for, beside rarer ones.
  std::vector<std::string> ignored;
};

// Of the parameters that the built-in vectors are made by.
[[nodiscard]] const std::string& sketch_digest();

// One connection; used by one thread at a time. Errors are of the file (busy, full, read_only, …).
class Memory {
 public:
  // Makes the file and its folder where there is none.
  [[nodiscard]] static base::Result<Memory> open(const std::filesystem::path& path);
  // `not_found` where there is none or it holds no index.
  [[nodiscard]] static base::Result<Memory> open_existing(const std::filesystem::path& path);
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;
  ~Memory();

  // Brings the memory to what `root` holds now, in one transaction: parses what changed, forgets
  // what is gone. The result does not depend on what was there before.
  [[nodiscard]] base::Result<IndexReport> index(const std::filesystem::path& root,
                                                const IndexOptions& options);
  // What the last `index` was told to keep by this name; empty: nothing.
  [[nodiscard]] base::Result<std::string> note(const std::string& name);
  // Everything that is known, as JSON lines in a fixed order, without the marks of when and how it
  // came here: equal memories give equal bytes.
  [[nodiscard]] base::Result<std::string> exported();
  // `what`: a file, "file::Class", "file::Class::method". `not_found` where there is none.
  [[nodiscard]] base::Result<Explanation> explain(std::string_view what,
                                                  const Narrowing& narrowing);
  // Asks a model about the kept tests that it has not been asked about with their present text;
  // each answer is kept at once, so that it can be stopped and goes on where it was.
  [[nodiscard]] base::Result<EndpointReport> ask_endpoint(const EndpointOptions& options);
  [[nodiscard]] base::Result<Answer> search(const Query& query, std::size_t limit);
  // All sources as `read_tree` gave them, sorted by path.
  [[nodiscard]] base::Result<std::vector<Source>> sources();
  [[nodiscard]] base::Result<std::vector<Collected>> collected();
  [[nodiscard]] base::Result<std::vector<Placed>> tests();

 private:
  class Impl;
  explicit Memory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace crosscheck::memory
