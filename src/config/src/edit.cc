#include "crosscheck/config/edit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "crosscheck/config/write.h"

namespace crosscheck::config {
namespace {

using base::Fault;
using base::Result;

std::string spaces(std::size_t n) { return std::string(n, ' '); }

std::string mode_line(Mode mode) { return fmt::format("mode: {}", to_string(mode)); }

std::string names_in_flow(const std::vector<std::string>& names) {
  std::vector<std::string> written;
  written.reserve(names.size());
  for (const std::string& name : names) written.push_back(plain_or_quoted(name));
  return fmt::format("names: [{}]", fmt::join(written, ", "));
}

std::string rationale_in_flow(const Rationale& rationale) {
  return fmt::format("rationale: {{{}}}", fmt::join(rationale_lines(rationale), ", "));
}
std::vector<std::string> rationale_in_block(const Rationale& rationale) {
  std::vector<std::string> lines{"rationale:"};
  for (const std::string& line : rationale_lines(rationale)) lines.push_back("  " + line);
  return lines;
}

std::unordered_set<std::uint32_t> indices_of(const std::vector<Node>& nodes) {
  std::unordered_set<std::uint32_t> indices;
  for (const Node node : nodes) indices.insert(node.index());
  return indices;
}

// Alike ones together, in the order in which they first come.
template <class Key, class Value>
class Groups {
 public:
  std::vector<Value>& operator[](const Key& key) {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [&](const auto& group) { return group.first == key; });
    return found == all_.end() ? all_.emplace_back(key, std::vector<Value>{}).second
                               : found->second;
  }
  [[nodiscard]] auto begin() { return all_.begin(); }
  [[nodiscard]] auto end() { return all_.end(); }

 private:
  std::vector<std::pair<Key, std::vector<Value>>> all_;
};

tl::unexpected<base::Error> unusual(Node node) {
  return base::fail(Fault::conflict,
                    to_string(node.place()) + ": this layout cannot be changed in place",
                    "change it by hand, or give each item a line of its own");
}

}  // namespace

Result<void> Editor::own(Node node) const {
  if (&node.document() == &document()) return {};
  return base::fail(
      Fault::conflict,
      fmt::format("{}: this does not stand in {}", to_string(node.place()), document().name()),
      "change it there");
}

std::string_view Editor::newline() const {
  const auto at = source().find('\n');
  return at != std::string_view::npos && at > 0 && source()[at - 1] == '\r' ? "\r\n" : "\n";
}

// Where the line that a value ends in is over: behind its line break, or at the end of the file.
std::size_t Editor::line_end(std::size_t byte) const {
  if (byte > 0 && source()[byte - 1] == '\n') return byte;  // a literal text ends in line breaks
  const auto at = source().find('\n', byte);
  return at == std::string_view::npos ? source().size() : at + 1;
}

// In bytes, from 0: how far what stands there is indented.
std::size_t Editor::column(std::size_t byte) const {
  return byte - document().line_begin(document().line(byte));
}

// Whether a line in between is nothing but a comment.
bool Editor::has_comment_lines(std::size_t from, std::size_t to) const {
  for (std::size_t at = line_end(from); at < to; at = line_end(at + 1)) {
    const auto text = source().find_first_not_of(" \t", at);
    if (text != std::string_view::npos && text < to && source()[text] == '#') return true;
  }
  return false;
}

void Editor::replace(std::size_t from, std::size_t to, std::string text) {
  splices_.push_back({from, to - from, std::move(text)});
}

// As lines of their own, behind the line that the byte is in.
void Editor::insert_lines(std::size_t after, const std::vector<std::string>& lines) {
  const std::size_t at = line_end(after);
  // Where the file does not end in a line break, it does not afterwards.
  const bool open = at == source().size() && (at == 0 || source()[at - 1] != '\n');
  std::string text;
  for (const std::string& line : lines)
    text += open ? std::string{newline()} + line : line + std::string{newline()};
  replace(at, at, std::move(text));
}

// The lines from that of the one byte to that of the other.
void Editor::remove_lines(std::size_t from, std::size_t to) {
  std::size_t begin = document().line_begin(document().line(from));
  const std::size_t end = line_end(to);
  if (end == source().size() && begin > 0 && source()[end - 1] != '\n') {
    --begin;
    if (begin > 0 && source()[begin - 1] == '\r') --begin;
  }
  replace(begin, end, {});
}

// A key that is not the mapping's first.
Result<void> Editor::remove_key(Node mapping, Node key) {
  const Node value = key.next();
  if (mapping.style() == Node::Style::block) {
    remove_lines(key.begin(), value.end());
    return {};
  }
  Node before = mapping.first();
  while (before.next().next() != key) before = before.next().next();
  const std::size_t from = before.next().end();
  if (source().substr(from, key.begin() - from).find('#') != std::string_view::npos)
    return unusual(key);
  replace(from, value.end(), {});
  return {};
}

void Editor::insert_key(Node after, const std::vector<std::string>& lines,
                        const std::string& in_flow, bool flow, std::size_t indent) {
  if (flow) {
    replace(after.end(), after.end(), ", " + in_flow);
    return;
  }
  std::vector<std::string> indented;
  indented.reserve(lines.size());
  for (const std::string& line : lines) indented.push_back(spaces(indent) + line);
  insert_lines(after.end(), indented);
}

Result<void> Editor::set_mode(const Entry& entry, std::optional<Mode> mode) {
  if (auto mine = own(entry.node); !mine) return mine;
  const Node key = entry.node.find_key("mode");
  const bool flow = entry.node.style() == Node::Style::flow;
  if (!key) {
    if (!mode) return {};
    insert_key(entry.node.find("names"), {mode_line(*mode)}, mode_line(*mode), flow,
               column(entry.node.first().begin()));
    return {};
  }
  const Node value = key.next();
  if (!mode) {
    const std::string_view rest = source().substr(value.end(), line_end(value.end()) - value.end());
    const bool bare = flow || rest.find('#') == std::string_view::npos;
    if (bare && key != entry.node.first()) return remove_key(entry.node, key);
  }
  replace(value.begin(), value.end(),
          std::string{to_string(mode.value_or(Mode::mandatory_success))});
  return {};
}

Result<void> Editor::set_rationale(const Entry& entry, const std::optional<Rationale>& rationale) {
  if (auto mine = own(entry.node); !mine) return mine;
  const bool flow = entry.node.style() == Node::Style::flow;
  const std::size_t indent = column(entry.node.first().begin());
  if (const Node key = entry.node.find_key("rationale")) {
    if (key == entry.node.first()) return unusual(key);
    if (!rationale) return remove_key(entry.node, key);
    if (flow || key.next().style() == Node::Style::flow) {
      replace(key.begin(), key.next().end(), rationale_in_flow(*rationale));
      return {};
    }
    std::string text;
    for (const std::string& line : rationale_in_block(*rationale))
      text += (text.empty() ? std::string{} : std::string{newline()} + spaces(indent)) + line;
    std::size_t end = key.next().end();
    while (end > key.begin() && (source()[end - 1] == '\n' || source()[end - 1] == '\r')) --end;
    replace(key.begin(), end, std::move(text));
    return {};
  }
  if (!rationale) return {};
  const Node mode = entry.node.find("mode");
  insert_key(mode ? mode : entry.node.find("names"), rationale_in_block(*rationale),
             rationale_in_flow(*rationale), flow, indent);
  return {};
}

Result<void> Editor::add_entry(const FileEntry& file, const std::vector<std::string>& names,
                               const Decision& decision) {
  if (auto mine = own(file.node); !mine) return mine;
  pending_[&file].whole.emplace_back(decision, names);
  return {};
}

void Editor::write_entries(
    const FileEntry& file,
    const std::vector<std::pair<Decision, std::vector<std::string>>>& entries) {
  std::string in_flow;
  for (const auto& [decision, names] : entries) {
    in_flow +=
        (in_flow.empty() ? "{" : ", {") + names_in_flow(names) + ", " + mode_line(decision.mode);
    if (decision.rationale) in_flow += ", " + rationale_in_flow(*decision.rationale);
    in_flow += "}";
  }
  const auto lines_at = [&](std::size_t dash) {
    std::vector<std::string> lines;
    for (const auto& [decision, names] : entries) {
      lines.push_back(spaces(dash) + "- names:");
      for (const std::string& name : names)
        lines.push_back(spaces(dash + 4) + "- " + plain_or_quoted(name));
      lines.push_back(spaces(dash + 2) + mode_line(decision.mode));
      if (!decision.rationale) continue;
      for (const std::string& line : rationale_in_block(*decision.rationale))
        lines.push_back(spaces(dash + 2) + line);
    }
    return lines;
  };
  const Node tests = file.node.find("tests");
  if (!tests) {
    if (file.node.style() == Node::Style::flow) {
      Node last = file.node.first();
      while (last.next().next()) last = last.next().next();
      replace(last.next().end(), last.next().end(), ", tests: [" + in_flow + "]");
      return;
    }
    const std::size_t indent = column(file.node.first().begin());
    std::vector<std::string> lines = lines_at(indent + 2);
    lines.insert(lines.begin(), spaces(indent) + "tests:");
    insert_lines(file.node.end(), lines);
    return;
  }
  if (tests.style() == Node::Style::flow) {
    Node last = tests.first();
    while (last && last.next()) last = last.next();
    // The first one after all others are gone needs no comma.
    const bool first = !last || emptied_.erase(tests.index()) > 0;
    const std::size_t at = last ? last.end() : tests.begin() + 1;
    replace(at, at, (first ? "" : ", ") + in_flow);
    return;
  }
  insert_lines(tests.end(), lines_at(column(tests.begin())));
}

Result<void> Editor::remove_entry(const FileEntry& file, const Entry& entry) {
  if (auto mine = own(entry.node); !mine) return mine;
  return remove_entries(home(file, entry), {&entry}, Others::none);
}

// The file's node that holds the entry: where several files of the configuration are about one test
// file, each has a node of its own.
Node Editor::home(const FileEntry& file, const Entry& entry) const {
  const Node node = entry.node;
  const auto holds = [&](Node candidate) {
    return candidate && &candidate.document() == &node.document() &&
           candidate.begin() <= node.begin() && node.end() <= candidate.end();
  };
  if (holds(file.node)) return file.node;
  for (const Node candidate :
       node.document().root().find("test_suite_config").find("files").children())
    if (holds(candidate)) return candidate;
  return file.node;
}

// Of a list in flow style: each run of items that go takes the commas with it that are not needed.
Result<void> Editor::remove_items(Node list, const std::vector<Node>& items) {
  std::size_t after = list.begin();
  for (Node at = list.first(); after < list.end(); at = at ? at.next() : at) {
    const std::size_t next = at ? at.begin() : list.end();
    if (source().substr(after, next - after).find('#') != std::string_view::npos)
      return unusual(list);
    after = at ? at.end() : next;
  }
  Node kept;
  const std::unordered_set<std::uint32_t> indices = indices_of(items);
  const auto goes = [&](Node node) { return node && indices.contains(node.index()); };
  for (Node at = list.first(); at;) {
    if (!goes(at)) {
      kept = at;
      at = at.next();
      continue;
    }
    const Node first = at;
    Node last = at;
    for (; goes(at); at = at.next()) last = at;
    const std::size_t begin = kept ? kept.end() : first.begin();
    replace(begin, kept || !at ? last.end() : at.begin(), {});
  }
  return {};
}

// `others`: whether entries are added to the file at the same time.
Result<void> Editor::remove_entries(Node file, const std::vector<const Entry*>& entries,
                                    Others others) {
  const Node key = file.find_key("tests");
  const Node tests = key.next();
  std::vector<Node> nodes;
  nodes.reserve(entries.size());
  for (const Entry* entry : entries) nodes.push_back(entry->node);
  bool all = true;
  const std::unordered_set<std::uint32_t> indices = indices_of(nodes);
  for (const Node test : tests.children()) all = all && indices.contains(test.index());
  if (tests.style() == Node::Style::flow) {
    if (all) emptied_.insert(tests.index());
    return remove_items(tests, nodes);
  }
  if (all && others == Others::none) {
    // Comments between the key and an entry, or between entries, would lose their place.
    const bool commented = has_comment_lines(key.end(), tests.end());
    if (key != file.first() && !commented) {
      remove_lines(key.begin(), tests.end());
      return {};
    }
    const std::size_t colon = source().find(':', key.end());
    replace(colon + 1, colon + 1, " []");
  }
  for (const Node node : nodes) {
    const std::size_t begin = document().line_begin(document().line(node.begin()));
    std::string_view dash = source().substr(begin, node.begin() - begin);
    dash.remove_prefix(std::min(dash.find_first_not_of(' '), dash.size()));
    if (!dash.starts_with('-') || dash.find_first_not_of("- ") != std::string_view::npos)
      return unusual(node);
    remove_lines(node.begin(), node.end());
  }
  return {};
}

Result<void> Editor::remove_names(const Entry& entry, const std::vector<const Name*>& names) {
  const Node list = entry.node.find("names");
  std::vector<Node> nodes;
  nodes.reserve(names.size());
  for (const Name* name : names) nodes.push_back(name->node);
  if (list.style() == Node::Style::flow) return remove_items(list, nodes);
  for (const Node node : nodes) remove_lines(node.begin(), node.end());
  return {};
}

// Writes an entry for names behind this one, with its other keys. `tests` is the list it stands in.
void Editor::add_behind(Node tests, const Entry& entry, const std::vector<Moved>& names,
                        const Decision& decision) {
  if (entry.node.style() == Node::Style::flow) {
    std::vector<std::string> texts;
    texts.reserve(names.size());
    for (const Moved& name : names) texts.push_back(name.text);
    std::string text =
        "{" + fmt::format("names: [{}]", fmt::join(texts, ", ")) + ", " + mode_line(decision.mode);
    for (Node key = entry.node.first(); key; key = key.next().next())
      if (key.text() != "names" && key.text() != "mode" && key.text() != "rationale")
        text += fmt::format(", {}: {}", key.text(), flow(key.next()));
    if (decision.rationale) text += ", " + rationale_in_flow(*decision.rationale);
    text += "}";
    if (tests.style() == Node::Style::flow) {
      replace(entry.node.end(), entry.node.end(), ", " + text);
    } else {
      insert_lines(entry.node.end(), {spaces(column(tests.begin())) + "- " + text});
    }
    return;
  }
  const std::size_t indent = column(entry.node.first().begin());
  const std::size_t dash = column(tests.begin());
  std::vector<std::string> lines{spaces(dash) + "-" + spaces(indent - dash - 1) + "names:"};
  for (const Moved& name : names)
    lines.push_back(spaces(indent + 2) + "- " + name.text + name.behind);
  lines.push_back(spaces(indent) + mode_line(decision.mode));
  if (decision.rationale)
    for (const std::string& line : rationale_in_block(*decision.rationale))
      lines.push_back(spaces(indent) + line);
  for (Node key = entry.node.first(); key; key = key.next().next()) {
    if (key.text() == "names" || key.text() == "mode" || key.text() == "rationale") continue;
    std::string_view text = source().substr(key.begin(), line_end(key.next().end()) - key.begin());
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
    lines.push_back(spaces(indent) + std::string{text});
  }
  insert_lines(entry.node.end(), lines);
}

Result<void> Editor::decide(const FileEntry& file, std::string_view name,
                            const Decision& decision) {
  for (const Entry& entry : file.entries) {
    if (!entry.when.is_always()) continue;
    for (const Name& listed : entry.names)
      if (listed.text() == name) return decide(file, entry, listed, decision);
  }
  if (auto mine = own(file.node); !mine) return mine;
  pending_[&file].added.push_back({std::string{name}, decision});
  return {};
}

Result<void> Editor::decide(const FileEntry& file, const Entry& entry, const Name& name,
                            const Decision& decision) {
  if (auto mine = own(entry.node); !mine) return mine;
  pending_[&file].entries[&entry].listed.push_back({std::string{name.text()}, decision});
  return {};
}

Result<void> Editor::split(const FileEntry& file, const Entry& entry, std::string_view name,
                           const Decision& decision) {
  if (auto mine = own(entry.node); !mine) return mine;
  pending_[&file].entries[&entry].split.push_back({std::string{name}, decision});
  return {};
}

Result<void> Editor::rename(const FileEntry& file, const Entry& entry, const Name& name,
                            std::string_view to, const std::optional<Decision>& decision) {
  if (auto mine = own(entry.node); !mine) return mine;
  if (decision) {
    pending_[&file].entries[&entry].listed.push_back(
        {std::string{name.text()}, decision, std::string{to}});
  } else {
    replace(name.node.begin(), name.node.end(), plain_or_quoted(to));
  }
  return {};
}

Result<void> Editor::remove(const FileEntry& file, std::string_view name) {
  for (const Entry& entry : file.entries)
    for (const Name& listed : entry.names)
      if (listed.text() == name) return remove(file, entry, listed);
  return base::fail(Fault::not_found, fmt::format("{}: '{}' is not listed in '{}'",
                                                  document().name(), name, file.path));
}

Result<void> Editor::remove(const FileEntry& file, const Entry& entry, const Name& name) {
  if (auto mine = own(entry.node); !mine) return mine;
  pending_[&file].entries[&entry].listed.push_back({std::string{name.text()}, std::nullopt});
  return {};
}

Result<void> Editor::settle(Node tests, const Entry& entry, const PendingOfEntry& pending,
                            std::vector<const Entry*>& gone) {
  // The latest word on a name counts.
  std::unordered_map<std::string_view, const Pending*> by_name;
  for (const Pending& one : pending.listed) by_name[one.name] = &one;
  const auto written = [&](const Name& name) {
    const std::string& renamed = by_name.at(name.text())->renamed;
    return renamed.empty() ? std::string{name.node.source()} : plain_or_quoted(renamed);
  };
  Groups<std::optional<Decision>, const Name*> groups;
  std::size_t decided = 0;
  for (const Name& name : entry.names) {
    const auto found = by_name.find(name.text());
    if (found == by_name.end()) continue;
    ++decided;
    groups[found->second->decision].push_back(&name);
  }
  // One group may stay, where no other name does.
  auto stays = groups.end();
  std::vector<const Name*> leaving;
  if (decided == entry.names.size()) {
    stays = std::find_if(groups.begin(), groups.end(),
                         [](const auto& group) { return group.first.has_value(); });
    if (stays == groups.end()) {
      gone.push_back(&entry);
    } else {
      if (stays->first->mode != entry.mode)
        if (auto done = set_mode(entry, stays->first->mode); !done) return done;
      if (stays->first->rationale != entry.rationale)
        if (auto done = set_rationale(entry, stays->first->rationale); !done) return done;
      for (const Name* name : stays->second)
        if (std::string text = written(*name); text != name->node.source())
          replace(name->node.begin(), name->node.end(), std::move(text));
    }
  }
  const bool by_line = entry.node.find("names").style() == Node::Style::block;
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    if (group == stays) continue;
    leaving.insert(leaving.end(), group->second.begin(), group->second.end());
    if (!group->first) continue;
    std::vector<Moved> moved;
    for (const Name* name : group->second) {
      moved.push_back({written(*name)});
      if (!by_line) continue;
      std::string_view behind =
          source().substr(name->node.end(), line_end(name->node.end()) - name->node.end());
      while (!behind.empty() && (behind.back() == '\n' || behind.back() == '\r'))
        behind.remove_suffix(1);
      moved.back().behind = behind;
    }
    add_behind(tests, entry, moved, *group->first);
  }
  Groups<Decision, Moved> split;
  for (const Pending& one : pending.split)
    split[*one.decision].push_back({plain_or_quoted(one.name)});
  for (const auto& [decision, names] : split) add_behind(tests, entry, names, decision);
  const bool removed = !gone.empty() && gone.back() == &entry;
  return leaving.empty() || removed ? Result<void>{} : remove_names(entry, leaving);
}

Result<void> Editor::settle_all() {
  for (const auto& [file, of_file] : pending_) {
    // By the node of the file that they stand in.
    Groups<Node, const Entry*> gone;
    std::vector<Node> growing;
    const bool grows_itself = !of_file.added.empty() || !of_file.whole.empty();
    if (grows_itself) growing.push_back(file->node);
    for (const auto& [entry, pending] : of_file.entries) {
      const Node home_node = home(*file, *entry);
      std::vector<const Entry*> empty;
      if (auto done = settle(home_node.find("tests"), *entry, pending, empty); !done) return done;
      for (const Entry* one : empty) gone[home_node].push_back(one);
      if (!pending.split.empty()) growing.push_back(home_node);
    }
    for (const auto& [node, entries] : gone) {
      const bool grows = std::find(growing.begin(), growing.end(), node) != growing.end();
      if (auto done = remove_entries(node, entries, grows ? Others::added : Others::none); !done)
        return done;
    }
    Groups<Decision, std::string> groups;
    for (const Pending& one : of_file.added) groups[*one.decision].push_back(one.name);
    auto entries = of_file.whole;
    entries.insert(entries.end(), groups.begin(), groups.end());
    if (grows_itself) write_entries(*file, entries);
  }
  pending_.clear();
  return {};
}

Result<std::string> Editor::apply() {
  if (auto done = settle_all(); !done) return tl::unexpected(done.error());
  // What is inserted where something else is removed stands before what remains.
  std::stable_sort(splices_.begin(), splices_.end(), [](const Splice& a, const Splice& b) {
    return std::pair{a.offset, a.removed != 0} < std::pair{b.offset, b.removed != 0};
  });
  std::size_t size = source().size();
  for (const Splice& splice : splices_) size += splice.inserted.size();
  std::string text;
  text.reserve(size);  // a large file need not stand twice in memory while its text grows
  std::size_t at = 0;
  for (const Splice& splice : splices_) {
    if (splice.offset < at)
      return base::fail(Fault::conflict,
                        to_string(document().place(splice.offset)) + ": changed twice at once",
                        "apply one change after the other");
    text += source().substr(at, splice.offset - at);
    text += splice.inserted;
    at = splice.offset + splice.removed;
  }
  text += source().substr(at);
  splices_.clear();
  emptied_.clear();
  return text;
}

}  // namespace crosscheck::config
