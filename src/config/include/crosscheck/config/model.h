#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/outcome.h"
#include "crosscheck/config/document.h"
#include "crosscheck/config/when.h"

// What a test configuration says. docs/test-config.md describes the format. Texts are views of the
// documents that a Config keeps.
namespace crosscheck::config {

using base::k_modes;
using base::Mode;
using base::parse_mode;

// Why a test has its mode. The list is closed.
enum class Reason : std::uint8_t {
  undecided,
  all_operators_supported,
  passed_on_device,
  unsupported_operator,
  unsupported_dtype,
  unsupported_feature,
  numerical_mismatch,
  device_error,
  crash,
  timeout,
  out_of_memory,
  flaky,
  not_for_this_device,
  out_of_scope,
  superseded,
  person,
};
inline constexpr std::string_view k_reasons[] = {"undecided",
                                                 "all_operators_supported",
                                                 "passed_on_device",
                                                 "unsupported_operator",
                                                 "unsupported_dtype",
                                                 "unsupported_feature",
                                                 "numerical_mismatch",
                                                 "device_error",
                                                 "crash",
                                                 "timeout",
                                                 "out_of_memory",
                                                 "flaky",
                                                 "not_for_this_device",
                                                 "out_of_scope",
                                                 "superseded",
                                                 "person"};
[[nodiscard]] std::string_view to_string(Reason reason);
[[nodiscard]] std::optional<Reason> parse_reason(std::string_view name);
// Whether a test of that mode can have that reason.
[[nodiscard]] bool goes_with(Reason reason, Mode mode);
// The modes that go with it, for a remedy: "xfail, xfail_strict or skip".
[[nodiscard]] std::string modes_of(Reason reason);
// The key that a rationale must have beside the reason: what is not supported, or by how much the
// numbers differ. Empty: none.
[[nodiscard]] std::string_view needed_by(Reason reason);

enum class Decider : std::uint8_t { rule, agent, person };
[[nodiscard]] std::string_view to_string(Decider decider);
[[nodiscard]] std::optional<Decider> parse_decider(std::string_view name);

struct Evidence {
  std::string kind;
  std::string ref;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

struct Rationale {
  Reason reason = Reason::undecided;
  std::string text = {};
  std::vector<std::string> operators = {};  // of unsupported_operator
  std::vector<std::string> dtypes = {};     // of unsupported_dtype
  std::vector<std::string> features = {};   // of unsupported_feature: extension points
  // Of numerical_mismatch: numbers by base::Mismatch's names, as written.
  std::vector<std::pair<std::string, std::string>> mismatch = {};
  std::vector<Evidence> evidence = {};
  std::optional<Decider> decided_by = {};
  std::string decided_at = {};  // YYYY-MM-DD; empty: not said
  std::string expires = {};     // the same; empty: never
  // Digests of the tests' definitions that it was decided for; none: whatever they become.
  std::vector<std::string> test_sources = {};
  friend bool operator==(const Rationale&, const Rationale&) = default;
};

// A regular expression in linear time that must match the whole. Copies share it.
class Pattern {
 public:
  // Refuses what RE2 cannot do (backreferences, lookaround) and what it reads otherwise than
  // Python.
  [[nodiscard]] static base::Result<Pattern> compile(std::string_view text);
  [[nodiscard]] bool matches(std::string_view name) const;

 private:
  struct Engine;
  std::shared_ptr<const Engine> engine_;
};

// A name of tests: [Class::]method, each a name or a pattern.
struct Name {
  Node node;                         // where it is written
  std::string_view class_name = {};  // empty: of any class, or of none
  std::string_view method = {};
  // Where the text is a pattern as a whole (it holds one of \.^$*+?{}[]|()): what each half
  // matches.
  struct Patterns {
    std::optional<Pattern> of_class = {};  // nothing: any class, or none
    Pattern of_method;
  };
  std::shared_ptr<const Patterns> patterns = {};

  [[nodiscard]] std::string_view text() const { return node.text(); }
  [[nodiscard]] bool is_pattern() const { return patterns != nullptr; }
  // Whether it names a test; for a pattern, whether both halves match.
  [[nodiscard]] bool matches(std::string_view test_class, std::string_view test_method) const;
};

// An operator, a dtype or a module in a list.
struct Item {
  Node node;
  std::string_view name = {};
  bool force_xfail = false;                   // of supported ones
  std::vector<std::string_view> dtypes = {};  // of a supported operator or module
  bool has_inputs = false;                    // of an included one: it brings its own inputs
};

struct Edits {
  Node node;
  std::vector<Item> include_ops = {}, exclude_ops = {};
  std::vector<Item> include_modules = {}, exclude_modules = {};
  std::vector<Item> include_dtypes = {}, exclude_dtypes = {};
};

struct Entry {
  Node node;
  std::vector<Name> names = {};
  Mode mode = Mode::mandatory_success;
  When when = {};
  std::optional<Rationale> rationale = {};
  std::shared_ptr<const Edits> edits = {};  // null: none, as in most
};
// What the edits are written as; false: none.
[[nodiscard]] inline Node edits_node(const Entry& entry) {
  return entry.edits ? entry.edits->node : Node{};
}

// Of one test file.
struct FileEntry {
  Node node;
  Node path_node;
  std::string_view path = {};  // as written
  Mode unlisted = Mode::skip;
  Node unlisted_node;  // false: the default
  std::vector<std::string_view> labels = {};
  std::vector<Entry> entries = {};
};

struct Global {
  std::vector<Item> dtypes = {};
  bool restricts_dtypes = false;  // false: the list is missing, and every dtype is supported
  std::vector<Item> ops = {};
  bool restricts_ops = false;
  std::vector<Item> modules = {};
  bool restricts_modules = false;
  Node seed;  // false: none
};

// One configuration, with what it includes.
struct Config {
  std::vector<std::shared_ptr<const Document>> documents = {};  // the first is the file itself
  std::vector<std::string_view> labels = {};
  std::vector<FileEntry> files = {};
  Global global = {};
};

// `path` without its token: "test/test_view_ops.py" of "${TORCH_ROOT}/test/test_view_ops.py".
[[nodiscard]] std::string_view without_token(std::string_view path);

}  // namespace crosscheck::config
