#include "crosscheck/runner/inventory.h"

#include <boost/json/serialize.hpp>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_set>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/runner/protocol.h"

namespace crosscheck::runner {
namespace {

using base::fail;
using base::Fault;
using base::Result;
namespace json = base::json;

json::object to_json(const Environment& environment) {
  json::object facts;
  for (const auto& [name, value] : environment.facts) facts[name] = value;
  return {{"ev", "environment"},
          {"schema", 1},
          {"probe", environment.probe},
          {"python", environment.python},
          {"torch", environment.torch},
          {"torch_git", environment.torch_git},
          {"pytest", environment.pytest},
          {"device",
           {{"type", environment.device.type},
            {"count", environment.device.count},
            {"name", environment.device.name}}},
          {"suite", environment.suite},
          {"facts", std::move(facts)}};
}

json::array to_json(const std::vector<std::string>& texts) {
  json::array array;
  for (const auto& text : texts) array.emplace_back(text);
  return array;
}

json::object to_json(const CollectedTest& test) {
  auto variant = base::parse_json(test.id.variant, "variant").value_or(json::object{});
  return {{"ev", "test"},
          {"node", test.node_id},
          {"file", test.id.file},
          {"class", test.id.class_name},
          {"method", test.id.method},
          {"variant", std::move(variant)},
          {"line", test.line},
          {"source", test.source},
          {"markers", to_json(test.markers)},
          {"quick", test.quick}};
}

json::object to_json(const CollectError& error) {
  return {{"ev", "collect_error"},
          {"file", error.file},
          {"type", error.type},
          {"message", error.message},
          {"traceback", error.traceback}};
}

json::object to_json(const CollectSkip& skip) {
  return {{"ev", "collect_skip"}, {"file", skip.file}, {"message", skip.message}};
}

std::size_t entries(const Inventory& inventory) {
  return inventory.tests.size() + inventory.errors.size() + inventory.skips.size();
}

template <class T, class F>
void group_by_file(std::vector<T>& items, F file_of) {
  std::map<std::string, std::vector<T>> files;
  for (auto& item : items) files[file_of(item)].push_back(std::move(item));
  items.clear();
  for (auto& [file, held] : files) {
    items.insert(items.end(), std::make_move_iterator(held.begin()),
                 std::make_move_iterator(held.end()));
  }
}

// Who has been seen.
class Identities {
 public:
  // Why `test` can be none of an inventory, if it cannot.
  std::optional<std::string> refuse(const CollectedTest& test) {
    if (const auto field = base::too_long(test.id)) {
      return base::to_utf8(test.node_id, 200) + " has too long a " + std::string{*field};
    }
    // No store keeps such a text: one name would cost the whole run.
    for (const std::string* text :
         {&test.node_id, &test.id.file, &test.id.class_name, &test.id.method})
      if (text->find('\0') != std::string::npos)
        return base::to_utf8(test.node_id, 200) + " has a NUL character in its name";
    if (!nodes_.insert(test.node_id).second) return test.node_id + " is collected twice";
    const auto [other, added] = ids_.emplace(test.id, test.node_id);
    if (added) return {};
    return test.node_id + " and " + other->second +
           " say the same of themselves: " + base::to_string(test.id);
  }

 private:
  std::unordered_set<std::string> nodes_;
  std::map<base::TestId, std::string> ids_;
};

Result<void> read_header(const json::value& root, Inventory& inventory) {
  const auto schema = base::require_int(root, "schema");
  if (!schema) return tl::unexpected(schema.error());
  if (*schema != Inventory::k_schema) {
    return fail(Fault::invalid_input, "schema " + std::to_string(*schema) +
                                          " is not known; this crosscheck reads schema " +
                                          std::to_string(Inventory::k_schema));
  }
  auto name = base::require_string(root, "suite.name");
  if (!name) return tl::unexpected(name.error());
  auto suite_root = base::optional_string(root, "suite.root");
  if (!suite_root) return tl::unexpected(suite_root.error());
  auto device = base::require_string(root, "device");
  if (!device) return tl::unexpected(device.error());
  inventory.suite.name = std::move(*name);
  inventory.suite.root = suite_root->value_or("");
  inventory.device = std::move(*device);
  if (const auto* files = base::find(root, "suite.files")) {
    if (!files->is_array()) return fail(Fault::invalid_input, "suite.files: expected a list");
    for (const auto& file : files->get_array()) {
      if (!file.is_string()) {
        return fail(Fault::invalid_input, "suite.files: expected a list of texts");
      }
      inventory.suite.files.emplace_back(file.get_string());
    }
  }
  const auto* environment = base::find(root, "environment");
  if (environment == nullptr) return fail(Fault::invalid_input, "environment: missing");
  auto event = parse_event(json::serialize(*environment));
  if (!event) return tl::unexpected(event.error());
  auto* found = std::get_if<Environment>(&*event);
  if (found == nullptr) return fail(Fault::invalid_input, "environment: not an environment");
  inventory.environment = std::move(*found);
  return {};
}

// Reads one line after the header; true if it was the last.
Result<bool> read_line(std::string_view line, Inventory& inventory) {
  auto event = parse_event(line);
  if (event) {
    if (auto* test = std::get_if<CollectedTest>(&*event)) {
      inventory.tests.push_back(std::move(*test));
      return false;
    }
    if (auto* error = std::get_if<CollectError>(&*event)) {
      inventory.errors.push_back(std::move(*error));
      return false;
    }
    if (auto* skip = std::get_if<CollectSkip>(&*event)) {
      inventory.skips.push_back(std::move(*skip));
      return false;
    }
    return fail(Fault::invalid_input, "expected a test, a collect_error or a collect_skip");
  }
  const auto root = base::parse_json(line, "line");
  if (!root || base::find(*root, "end") == nullptr) return tl::unexpected(event.error());
  const auto end = base::require_int(*root, "end");
  if (!end) return tl::unexpected(end.error());
  const auto found = entries(inventory);
  if (*end != static_cast<std::int64_t>(found)) {
    return fail(Fault::invalid_input, "the file says that it has " + std::to_string(*end) +
                                          " entries, but " + std::to_string(found) + " were found");
  }
  return true;
}

}  // namespace

void drop_unidentifiable(Inventory& inventory) {
  Identities identities;
  std::map<std::string, std::pair<std::string, std::size_t>> refused;  // the first's why, how many
  std::vector<CollectedTest> kept;
  kept.reserve(inventory.tests.size());
  for (auto& test : inventory.tests) {
    if (auto why = identities.refuse(test)) {
      auto& [first, count] = refused[test.id.file];
      if (count++ == 0) first = std::move(*why);
    } else {
      kept.push_back(std::move(test));
    }
  }
  inventory.tests = std::move(kept);
  for (auto& [file, why] : refused) {
    auto& [message, count] = why;
    if (count > 1) message += " (and " + std::to_string(count - 1) + " more)";
    inventory.errors.push_back({file, "", std::move(message), ""});
  }
}

Result<void> put_in_order(Inventory& inventory) {
  group_by_file(inventory.tests, [](const CollectedTest& test) { return test.id.file; });
  group_by_file(inventory.errors, [](const CollectError& error) { return error.file; });
  group_by_file(inventory.skips, [](const CollectSkip& skip) { return skip.file; });
  Identities identities;
  for (const auto& test : inventory.tests) {
    if (auto why = identities.refuse(test)) return fail(Fault::invalid_input, std::move(*why));
  }
  return {};
}

std::string to_json_lines(const Inventory& inventory) {
  json::object suite{{"name", inventory.suite.name}};
  if (!inventory.suite.root.empty()) suite["root"] = inventory.suite.root;
  if (!inventory.suite.files.empty()) suite["files"] = to_json(inventory.suite.files);
  std::string text = json::serialize(json::object{{"schema", Inventory::k_schema},
                                                  {"suite", std::move(suite)},
                                                  {"device", inventory.device},
                                                  {"environment", to_json(inventory.environment)}});
  text += '\n';
  for (const auto& test : inventory.tests) text += json::serialize(to_json(test)) + '\n';
  for (const auto& error : inventory.errors) text += json::serialize(to_json(error)) + '\n';
  for (const auto& skip : inventory.skips) text += json::serialize(to_json(skip)) + '\n';
  text += json::serialize(json::object{{"end", entries(inventory)}}) + '\n';
  return text;
}

Result<Inventory> parse_inventory(std::string_view text, std::string_view name) {
  Inventory inventory;
  std::size_t number = 0;
  bool ended = false;
  const auto at = [&](const base::Error& error) {
    return base::Error{error.fault,
                       std::string{name} + ":" + std::to_string(number) + ": " + error.message,
                       "collect it again with `crosscheck collect`"};
  };
  while (!text.empty()) {
    ++number;
    const auto stop = text.find('\n');
    const auto line = text.substr(0, stop);
    text.remove_prefix(stop == std::string_view::npos ? text.size() : stop + 1);
    if (ended) {
      return tl::unexpected(at({Fault::invalid_input, "expected nothing after the end line", {}}));
    }
    if (number == 1) {
      const auto root = base::parse_json(line, "inventory's header");
      if (!root) return tl::unexpected(at(root.error()));
      if (auto read = read_header(*root, inventory); !read) {
        return tl::unexpected(at(read.error()));
      }
      continue;
    }
    const auto last = read_line(line, inventory);
    if (!last) return tl::unexpected(at(last.error()));
    ended = *last;
  }
  if (!ended) {
    return tl::unexpected(at({Fault::invalid_input,
                              number == 0 ? "the file is empty"
                                          : "the file is cut off: its last line is no {\"end\": n}",
                              {}}));
  }
  if (auto ordered = put_in_order(inventory); !ordered) {
    return fail(Fault::invalid_input, std::string{name} + ": " + ordered.error().message,
                "collect it again with `crosscheck collect`");
  }
  return inventory;
}

std::string environment_digest(const Environment& environment) {
  json::object facts;
  for (const auto& [name, value] : environment.facts) facts[name] = value;
  return base::sha256_hex(base::canonical_json(facts));
}

Result<void> check_same_subject(const Inventory& inventory, const Environment& found) {
  const auto& listed = inventory.environment;
  const auto refuse = [](const std::string& what, const std::string& then, const std::string& now) {
    return fail(Fault::environment,
                "the inventory was collected with " + what + " " + then + ", but " + what + " " +
                    now + " is installed: its tests are other tests",
                "collect it again with `crosscheck collect`, or give the interpreter that has " +
                    what + " " + then + " with --python");
  };
  if (listed.torch != found.torch) return refuse("torch", listed.torch, found.torch);
  if (listed.torch_git != found.torch_git) {
    return refuse("torch", listed.torch + " (commit " + listed.torch_git + ")",
                  found.torch + " (commit " + found.torch_git + ")");
  }
  if (listed.suite != found.suite) {
    return fail(Fault::environment,
                "the inventory was collected from suite revision " + listed.suite +
                    ", but the suite is now at " + found.suite,
                "collect it again with `crosscheck collect`");
  }
  if (listed.device.type != found.device.type) {
    return fail(Fault::environment,
                "the inventory was collected for device '" + listed.device.type +
                    "', but this run is on '" + found.device.type + "'",
                "collect an inventory for this device, or choose the other with --device");
  }
  return {};
}

}  // namespace crosscheck::runner
