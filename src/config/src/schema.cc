#include "schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "crosscheck/base/nearest.h"
#include "crosscheck/config/model.h"

namespace crosscheck::config {
namespace {

constexpr std::string_view k_dtypes[] = {
    "float16",   "float32",   "float64",    "bfloat16", "int8",   "int16",
    "int32",     "int64",     "uint8",      "uint16",   "uint32", "uint64",
    "complex32", "complex64", "complex128", "bool",     "half"};
constexpr std::string_view k_inits[] = {"rand",   "randn",  "randint",       "zeros",
                                        "ones",   "arange", "eye",           "full",
                                        "xavier", "file",   "cumsum_offsets"};
constexpr std::string_view k_decided_by[] = {"rule", "agent", "person"};

constexpr Type k_any{};
constexpr Type k_text{.shape = Shape::text};
constexpr Type k_text_or_null{.shape = Shape::text, .or_null = true};
constexpr Type k_boolean{.shape = Shape::boolean};
constexpr Type k_integer{.shape = Shape::integer};
constexpr Type k_number{.shape = Shape::number};
constexpr Type k_dtype{.shape = Shape::dtype};
constexpr Type k_date{.shape = Shape::date};
constexpr Type k_date_or_null{.shape = Shape::date, .or_null = true};
constexpr Type k_mode{.shape = Shape::word, .words = k_modes};
constexpr Type k_texts{.shape = Shape::list, .item = &k_text};
constexpr Type k_integers{.shape = Shape::list, .item = &k_integer};
constexpr Type k_text_or_texts{
    .shape = Shape::list, .item = &k_text, .alternative = &k_text, .not_empty = true};

// Tensors and other inputs of an operator or module.
constexpr Key k_init_args_keys[] = {{"low", k_number},        {"high", k_number},
                                    {"total", k_integer},     {"fill_value", k_number},
                                    {"path", k_text_or_null}, {"key", k_text_or_null}};
constexpr Schema k_init_args{"init_args", k_init_args_keys};
constexpr Key k_layout_keys[] = {{"device_size", k_integers, true},
                                 {"stride_map", k_integers, true},
                                 {"device_dtype", k_text, true}};
constexpr Schema k_layout{"a device layout", k_layout_keys};
constexpr Key k_tensor_keys[] = {
    {"shape", k_integers, true},
    {"dtype", k_dtype, true},
    {"device", k_text},
    {"init", {.shape = Shape::word, .words = k_inits}},
    {"init_args", {.shape = Shape::mapping, .schema = &k_init_args}},
    {"stride", {.shape = Shape::list, .item = &k_integer, .or_null = true}},
    {"storage_offset", k_integer},
    {"device_layout", {.shape = Shape::mapping, .schema = &k_layout, .or_null = true}}};
constexpr Schema k_tensor{"a tensor", k_tensor_keys};
constexpr Type k_tensor_type{.shape = Shape::mapping, .schema = &k_tensor};
constexpr Key k_cache_keys[] = {{"cache_path", k_text, true}, {"layer_idx", k_integer, true},
                                {"key", k_tensor_type, true}, {"value", k_tensor_type, true},
                                {"max_cache_len", k_any},     {"config_path", k_text_or_null},
                                {"config_kwargs", k_any}};
constexpr Schema k_cache{"a cache", k_cache_keys};
constexpr Key k_argument_keys[] = {{"tensor", k_tensor_type},
                                   {"tensor_list", {.shape = Shape::list, .item = &k_tensor_type}},
                                   {"cache", {.shape = Shape::mapping, .schema = &k_cache}},
                                   {"module_path", k_text},
                                   {"module_kwargs", k_any},
                                   {"config_path", k_text_or_null},
                                   {"config_kwargs", k_any},
                                   {"model_id", k_text_or_null},
                                   {"config_overrides", k_any},
                                   {"value", k_any},
                                   {"py", k_text}};
constexpr Schema k_argument{"an argument", k_argument_keys};
constexpr Type k_argument_type{.shape = Shape::mapping, .schema = &k_argument};
constexpr Key k_inputs_keys[] = {
    {"args", {.shape = Shape::list, .item = &k_argument_type, .or_null = true}}, {"kwargs", k_any}};
constexpr Schema k_inputs{"inputs", k_inputs_keys};
constexpr Type k_inputs_type{.shape = Shape::mapping, .schema = &k_inputs, .or_null = true};
constexpr Type k_one_inputs_type{.shape = Shape::mapping, .schema = &k_inputs};
constexpr Type k_forward_type{.shape = Shape::list,
                              .item = &k_one_inputs_type,
                              .or_null = true,
                              .alternative = &k_one_inputs_type};

// `edits:`.
constexpr Key k_named_keys[] = {{"name", k_text, true}, {"description", k_text_or_null}};
constexpr Schema k_named{"an item", k_named_keys};
constexpr Type k_named_list_item{.shape = Shape::mapping, .schema = &k_named};
constexpr Type k_named_list{.shape = Shape::list, .item = &k_named_list_item};
constexpr Key k_op_keys[] = {{"name", k_text, true},
                             {"description", k_text_or_null},
                             {"tags", k_texts},
                             {"sample_inputs_func", k_inputs_type},
                             {"kwargs", k_any}};
constexpr Schema k_op{"an operator", k_op_keys};
constexpr Type k_op_item{.shape = Shape::mapping, .schema = &k_op};
constexpr Key k_ops_edits_keys[] = {{"include", {.shape = Shape::list, .item = &k_op_item}},
                                    {"exclude", k_named_list}};
constexpr Schema k_ops_edits{"edits.ops", k_ops_edits_keys};
constexpr Key k_module_keys[] = {{"name", k_text, true},
                                 {"module_path", k_text_or_null},
                                 {"description", k_text_or_null},
                                 {"apply_device_layout", k_boolean},
                                 {"sample_inputs_func", k_inputs_type},
                                 {"constructor_inputs", k_inputs_type},
                                 {"forward_inputs", k_forward_type}};
constexpr Schema k_module{"a module", k_module_keys};
constexpr Type k_module_item{.shape = Shape::mapping, .schema = &k_module};
constexpr Key k_modules_edits_keys[] = {{"include", {.shape = Shape::list, .item = &k_module_item}},
                                        {"exclude", k_named_list}};
constexpr Schema k_modules_edits{"edits.modules", k_modules_edits_keys};
constexpr Key k_precision_keys[] = {{"atol", {.shape = Shape::number, .or_null = true}},
                                    {"rtol", {.shape = Shape::number, .or_null = true}}};
constexpr Schema k_precision{"a precision", k_precision_keys};
constexpr Type k_precision_type{.shape = Shape::mapping, .schema = &k_precision, .or_null = true};
constexpr Key k_dtype_keys[] = {{"name", k_dtype, true},
                                {"description", k_text_or_null},
                                {"precision", k_precision_type},
                                {"force_xfail", k_boolean}};
constexpr Schema k_dtype_schema{"a dtype", k_dtype_keys};
constexpr Type k_dtype_item{.shape = Shape::mapping, .schema = &k_dtype_schema};
constexpr Key k_excluded_dtype_keys[] = {{"name", k_dtype, true}, {"description", k_text_or_null}};
constexpr Schema k_excluded_dtype{"a dtype", k_excluded_dtype_keys};
constexpr Type k_excluded_dtype_item{.shape = Shape::mapping, .schema = &k_excluded_dtype};
constexpr Key k_dtypes_edits_keys[] = {
    {"include", {.shape = Shape::list, .item = &k_dtype_item}},
    {"exclude", {.shape = Shape::list, .item = &k_excluded_dtype_item}}};
constexpr Schema k_dtypes_edits{"edits.dtypes", k_dtypes_edits_keys};
constexpr Key k_functions_keys[] = {{"cpu_move", k_named_list}};
constexpr Schema k_functions{"edits.functions", k_functions_keys};
constexpr Key k_edits_keys[] = {{"ops", {.shape = Shape::mapping, .schema = &k_ops_edits}},
                                {"dtypes", {.shape = Shape::mapping, .schema = &k_dtypes_edits}},
                                {"modules", {.shape = Shape::mapping, .schema = &k_modules_edits}},
                                {"functions", {.shape = Shape::mapping, .schema = &k_functions}}};
constexpr Schema k_edits{"edits", k_edits_keys};

// What crosscheck adds to an entry.
constexpr Key k_when_keys[] = {
    {"platform", k_text_or_texts}, {"torch", k_text}, {"device", k_text_or_texts}};
constexpr Schema k_when{"a condition", k_when_keys};
constexpr Key k_evidence_keys[] = {{"kind", k_text, true}, {"ref", k_text, true}};
constexpr Schema k_evidence{"a piece of evidence", k_evidence_keys};
constexpr Type k_evidence_item{.shape = Shape::mapping, .schema = &k_evidence};
constexpr Key k_mismatch_keys[] = {{"absolute", k_number},
                                   {"relative", k_number},
                                   {"absolute_tolerance", k_number},
                                   {"relative_tolerance", k_number}};
constexpr Schema k_mismatch{"a mismatch", k_mismatch_keys};
constexpr Type k_dtype_list{.shape = Shape::list, .item = &k_dtype, .not_empty = true};
constexpr Type k_some_texts{.shape = Shape::list, .item = &k_text, .not_empty = true};
constexpr Key k_rationale_keys[] = {{"reason", {.shape = Shape::word, .words = k_reasons}, true},
                                    {"text", k_text},
                                    {"operators", k_some_texts},
                                    {"dtypes", k_dtype_list},
                                    {"features", k_some_texts},
                                    {"mismatch", {.shape = Shape::mapping, .schema = &k_mismatch}},
                                    {"evidence", {.shape = Shape::list, .item = &k_evidence_item}},
                                    {"decided_by", {.shape = Shape::word, .words = k_decided_by}},
                                    {"decided_at", k_date},
                                    {"expires", k_date_or_null},
                                    {"test_source", k_text_or_texts}};
constexpr Schema k_rationale{"a rationale", k_rationale_keys};

constexpr Key k_entry_keys[] = {{"names", k_text_or_texts, true},
                                {"mode", k_mode},
                                {"tags", k_texts},
                                {"labels", k_texts},
                                {"no_grad", k_boolean},
                                {"edits", {.shape = Shape::mapping, .schema = &k_edits}},
                                {"when", {.shape = Shape::mapping, .schema = &k_when}},
                                {"rationale", {.shape = Shape::mapping, .schema = &k_rationale}}};
constexpr Schema k_entry{"a test entry", k_entry_keys};
constexpr Type k_entry_item{.shape = Shape::mapping, .schema = &k_entry};
constexpr Key k_file_keys[] = {{"path", k_text, true},
                               {"unlisted_test_mode", k_mode},
                               {"labels", k_texts},
                               {"tests", {.shape = Shape::list, .item = &k_entry_item}}};
constexpr Schema k_file{"a file entry", k_file_keys};
constexpr Type k_file_item{.shape = Shape::mapping, .schema = &k_file};

constexpr Key k_supported_dtype_keys[] = {{"name", k_dtype, true}, {"precision", k_precision_type}};
constexpr Schema k_supported_dtype{"a dtype", k_supported_dtype_keys};
constexpr Type k_supported_dtype_item{.shape = Shape::mapping, .schema = &k_supported_dtype};
constexpr Type k_supported_dtypes{.shape = Shape::list, .item = &k_supported_dtype_item};
constexpr Key k_supported_op_keys[] = {
    {"name", k_text, true}, {"force_xfail", k_boolean}, {"dtypes", k_supported_dtypes}};
constexpr Schema k_supported_op{"an operator", k_supported_op_keys};
constexpr Type k_supported_op_item{
    .shape = Shape::mapping, .schema = &k_supported_op, .alternative = &k_text};
constexpr Key k_supported_module_keys[] = {{"name", k_text, true},
                                           {"force_xfail", k_boolean},
                                           {"dtypes", k_supported_dtypes},
                                           {"constructor_inputs", k_inputs_type},
                                           {"forward_inputs", k_forward_type}};
constexpr Schema k_supported_module{"a module", k_supported_module_keys};
constexpr Type k_supported_module_item{
    .shape = Shape::mapping, .schema = &k_supported_module, .alternative = &k_text};
constexpr Key k_input_config_keys[] = {{"seed", {.shape = Shape::integer, .or_null = true}}};
constexpr Schema k_input_config{"input_config", k_input_config_keys};
constexpr Key k_global_keys[] = {
    {"supported_dtypes", {.shape = Shape::list, .item = &k_dtype_item}},
    {"supported_ops", {.shape = Shape::list, .item = &k_supported_op_item, .or_null = true}},
    {"supported_modules",
     {.shape = Shape::list, .item = &k_supported_module_item, .or_null = true}},
    {"input_config", {.shape = Shape::mapping, .schema = &k_input_config}}};
constexpr Schema k_global{"global", k_global_keys};
constexpr Key k_suite_keys[] = {{"labels", k_texts},
                                {"include", k_texts},
                                {"files", {.shape = Shape::list, .item = &k_file_item}},
                                {"global", {.shape = Shape::mapping, .schema = &k_global}}};
constexpr Schema k_suite{"test_suite_config", k_suite_keys};
constexpr Key k_root_keys[] = {
    {"test_suite_config", {.shape = Shape::mapping, .schema = &k_suite}, true}};
constexpr Schema k_root{"a test configuration", k_root_keys};
constexpr Type k_root_type{.shape = Shape::mapping, .schema = &k_root};

std::string_view wanted(const Type& type) {
  switch (type.shape) {
    case Shape::any:
      return "a value";
    case Shape::text:
    case Shape::word:
      return "text";
    case Shape::boolean:
      return "true or false";
    case Shape::integer:
      return "a whole number";
    case Shape::number:
      return "a number";
    case Shape::dtype:
      return "a dtype";
    case Shape::date:
      return "a date";
    case Shape::mapping:
      return "a mapping";
    case Shape::list:
      return "a list";
  }
  return "";
}

std::string found(Node node) {
  switch (node.kind()) {
    case Node::Kind::text:
      if (node.is_null()) return "nothing";
      return fmt::format("'{}'", node.text().substr(0, 60));
    case Node::Kind::sequence:
      return "a list";
    case Node::Kind::mapping:
      return "a mapping";
    case Node::Kind::alias:
      return "an alias";
  }
  return {};
}

class Walk {
 public:
  explicit Walk(std::vector<Finding>& findings) : findings_{findings} {}

  void check(Node node, const Type& type, std::string_view key) {
    if (type.shape == Shape::any) return;
    if (type.or_null && node.is_null()) return;
    if (node.is(Node::Kind::alias) || node.is_special()) {
      // Inputs that generators write share values by aliases; what decides about tests does not.
      if (inside_inputs_) return;
      add(FindingKind::bad_value, node,
          fmt::format("{}: anchors, aliases and tags are allowed in a test's inputs only", key),
          "write the value out");
      return;
    }
    if (type.alternative && node.kind() != kind_of(type.shape)) {
      check(node, *type.alternative, key);
      return;
    }
    if (type.shape == Shape::mapping) {
      mapping(node, *type.schema, key);
    } else if (type.shape == Shape::list) {
      list(node, type, key);
    } else if (!node.is(Node::Kind::text) || node.is_null()) {
      mismatch(node, type, key);
    } else {
      scalar(node, type, key);
    }
  }

 private:
  static Node::Kind kind_of(Shape shape) {
    if (shape == Shape::mapping) return Node::Kind::mapping;
    return shape == Shape::list ? Node::Kind::sequence : Node::Kind::text;
  }
  void add(FindingKind kind, Node node, std::string message, std::string remedy) {
    if (findings_.size() > k_finding_limit) return;
    findings_.push_back({kind, node.place(), std::move(message), std::move(remedy)});
  }
  void mismatch(Node node, const Type& type, std::string_view key) {
    add(FindingKind::bad_value, node,
        fmt::format("{}: {} is expected, and {} stands here", key, wanted(type), found(node)), {});
  }

  void mapping(Node node, const Schema& schema, std::string_view key) {
    if (!node.is(Node::Kind::mapping)) {
      mismatch(node, {.shape = Shape::mapping}, key);
      return;
    }
    for (Node at = node.first(); at; at = at.next().next()) {
      const auto known = std::find_if(schema.keys.begin(), schema.keys.end(),
                                      [&](const Key& k) { return k.name == at.text(); });
      if (known == schema.keys.end()) {
        std::vector<std::string_view> names;
        for (const Key& k : schema.keys) names.push_back(k.name);
        add(FindingKind::unknown_key, at,
            fmt::format("{} has no key '{}'", schema.what, at.text().substr(0, 60)),
            base::suggest(at.text(), names));
        continue;
      }
      const bool before = inside_inputs_;
      inside_inputs_ = inside_inputs_ || known->type.schema == &k_inputs ||
                       known->type.item == &k_one_inputs_type;
      check(at.next(), known->type, known->name);
      inside_inputs_ = before;
    }
    for (const Key& k : schema.keys)
      if (k.required && !node.find_key(k.name))
        add(FindingKind::missing_key, node, fmt::format("{} needs '{}'", schema.what, k.name),
            fmt::format("add `{}:`", k.name));
  }

  void list(Node node, const Type& type, std::string_view key) {
    if (!node.is(Node::Kind::sequence)) {
      mismatch(node, type, key);
      return;
    }
    if (type.not_empty && !node.first())
      add(FindingKind::bad_value, node, fmt::format("{}: the list is empty", key),
          "name one at least, or remove the key");
    for (const Node item : node.children()) check(item, *type.item, key);
  }

  void scalar(Node node, const Type& type, std::string_view key) {
    const std::string_view text = node.text();
    switch (type.shape) {
      case Shape::word:
        if (std::find(type.words.begin(), type.words.end(), text) == type.words.end())
          add(FindingKind::bad_value, node,
              fmt::format("{}: '{}' is not among its words", key, text.substr(0, 60)),
              base::suggest(text, type.words));
        return;
      case Shape::dtype: {
        const std::string_view bare = text.starts_with("torch.") ? text.substr(6) : text;
        if (std::find(std::begin(k_dtypes), std::end(k_dtypes), bare) == std::end(k_dtypes))
          add(FindingKind::bad_value, node,
              fmt::format("{}: '{}' is no dtype", key, text.substr(0, 60)),
              base::suggest(bare, k_dtypes));
        return;
      }
      case Shape::boolean:
        if (!parse_boolean(text) || node.style() != Node::Style::plain) mismatch(node, type, key);
        return;
      case Shape::integer: {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
        if (error != std::errc{} || end != text.data() + text.size()) {
          mismatch(node, type, key);
        } else if (digits.size() > 1 && digits[0] == '0') {
          // YAML 1.1 reads 010 as eight.
          add(FindingKind::bad_value, node, fmt::format("{}: '{}' begins with 0", key, text),
              "write it without");
        }
        return;
      }
      case Shape::number: {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
          mismatch(node, type, key);
        return;
      }
      case Shape::date:
        if (!is_date(text))
          add(FindingKind::bad_value, node,
              fmt::format("{}: '{}' is no date", key, text.substr(0, 60)), "write YYYY-MM-DD");
        return;
      case Shape::any:
      case Shape::text:
      case Shape::mapping:
      case Shape::list:
        return;
    }
  }

  static bool is_date(std::string_view text) {
    if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
    int year = 0;
    unsigned month = 0;
    unsigned day = 0;
    const auto whole = [](std::string_view part, auto& value) {
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
      return error == std::errc{} && end == part.data() + part.size();
    };
    return whole(text.substr(0, 4), year) && whole(text.substr(5, 2), month) &&
           whole(text.substr(8, 2), day) &&
           std::chrono::year_month_day{std::chrono::year{year}, std::chrono::month{month},
                                       std::chrono::day{day}}
               .ok();
  }

  std::vector<Finding>& findings_;
  bool inside_inputs_ = false;
};

}  // namespace

std::optional<bool> parse_boolean(std::string_view text) {
  constexpr std::string_view k_yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                        "YES",  "on",   "On",   "ON"};
  constexpr std::string_view k_no[] = {"false", "False", "FALSE", "no", "No",
                                       "NO",    "off",   "Off",   "OFF"};
  if (std::find(std::begin(k_yes), std::end(k_yes), text) != std::end(k_yes)) return true;
  if (std::find(std::begin(k_no), std::end(k_no), text) != std::end(k_no)) return false;
  return std::nullopt;
}

const Type& root_type() { return k_root_type; }

void check_type(Node node, const Type& type, std::string_view key, std::vector<Finding>& findings) {
  Walk{findings}.check(node, type, key);
}

}  // namespace crosscheck::config
