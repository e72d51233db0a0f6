#include "crosscheck/config/edit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

tl::unexpected<base::Error> unusual(Node node) {
  return base::fail(Fault::conflict,
                    to_string(node.place()) + ": this layout cannot be changed in place",
                    "change it by hand, or give each item a line of its own");
}

}  // namespace

Result<void> Editor::own(Node node) const {
  if (&node.document() == &document()) return {};
  return base::fail(Fault::conflict,
                    fmt::format("{}: this stands in a file that {} includes",
                                to_string(node.place()), document().name()),
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
  std::string in_flow = "{" + names_in_flow(names) + ", " + mode_line(decision.mode);
  if (decision.rationale) in_flow += ", " + rationale_in_flow(*decision.rationale);
  in_flow += "}";
  const auto lines_at = [&](std::size_t dash) {
    std::vector<std::string> lines{spaces(dash) + "- names:"};
    for (const std::string& name : names)
      lines.push_back(spaces(dash + 6) + "- " + plain_or_quoted(name));
    lines.push_back(spaces(dash + 2) + mode_line(decision.mode));
    if (decision.rationale)
      for (const std::string& line : rationale_in_block(*decision.rationale))
        lines.push_back(spaces(dash + 2) + line);
    return lines;
  };
  const Node tests = file.node.find("tests");
  if (!tests) {
    if (file.node.style() == Node::Style::flow) {
      Node last = file.node.first();
      while (last.next().next()) last = last.next().next();
      replace(last.next().end(), last.next().end(), ", tests: [" + in_flow + "]");
      return {};
    }
    const std::size_t indent = column(file.node.first().begin());
    std::vector<std::string> lines = lines_at(indent + 2);
    lines.insert(lines.begin(), spaces(indent) + "tests:");
    insert_lines(file.node.end(), lines);
    return {};
  }
  if (tests.style() == Node::Style::flow) {
    Node last = tests.first();
    while (last && last.next()) last = last.next();
    // The first one after all others are gone needs no comma.
    const bool first = !last || emptied_.erase(tests.index()) > 0;
    const std::size_t at = last ? last.end() : tests.begin() + 1;
    replace(at, at, (first ? "" : ", ") + in_flow);
    return {};
  }
  insert_lines(tests.end(), lines_at(column(tests.begin())));
  return {};
}

Result<void> Editor::remove_entry(const FileEntry& file, const Entry& entry) {
  if (auto mine = own(entry.node); !mine) return mine;
  return remove_entries(file, {&entry}, Others::none);
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
  for (Node at = list.first(); at;) {
    const auto goes = [&](Node node) {
      return node && std::find(items.begin(), items.end(), node) != items.end();
    };
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
Result<void> Editor::remove_entries(const FileEntry& file, const std::vector<const Entry*>& entries,
                                    Others others) {
  const Node key = file.node.find_key("tests");
  const Node tests = key.next();
  std::vector<Node> nodes;
  nodes.reserve(entries.size());
  for (const Entry* entry : entries) nodes.push_back(entry->node);
  bool all = true;
  for (const Node test : tests.children())
    all = all && std::find(nodes.begin(), nodes.end(), test) != nodes.end();
  if (tests.style() == Node::Style::flow) {
    if (all) emptied_.insert(tests.index());
    return remove_items(tests, nodes);
  }
  if (all && others == Others::none) {
    // Comments between the key and an entry, or between entries, would lose their place.
    const bool commented = has_comment_lines(key.end(), tests.end());
    if (key != file.node.first() && !commented) {
      remove_lines(key.begin(), tests.end());
      return {};
    }
    replace(key.next().begin(), tests.end(), "[]");
    return {};
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

// Writes an entry for names that leave theirs.
void Editor::move_out(const FileEntry& file, const Entry& entry,
                      const std::vector<const Name*>& names, const Decision& decision) {
  if (entry.node.style() == Node::Style::flow) {
    std::vector<std::string> texts;
    texts.reserve(names.size());
    for (const Name* name : names) texts.emplace_back(name->text());
    std::string text = "{" + names_in_flow(texts) + ", " + mode_line(decision.mode);
    for (Node key = entry.node.first(); key; key = key.next().next())
      if (key.text() != "names" && key.text() != "mode" && key.text() != "rationale")
        text += fmt::format(", {}: {}", key.text(), flow(key.next()));
    if (decision.rationale) text += ", " + rationale_in_flow(*decision.rationale);
    text += "}";
    const Node tests = file.node.find("tests");
    if (tests.style() == Node::Style::flow) {
      replace(entry.node.end(), entry.node.end(), ", " + text);
    } else {
      insert_lines(entry.node.end(), {spaces(column(tests.begin())) + "- " + text});
    }
    return;
  }
  const std::size_t indent = column(entry.node.first().begin());
  const std::size_t dash = column(file.node.find("tests").begin());
  std::vector<std::string> lines{spaces(dash) + "-" + spaces(indent - dash - 1) + "names:"};
  const Node list = entry.node.find("names");
  for (const Name* name : names) {
    std::string line = spaces(indent + 4) + "- " + std::string{name->node.source()};
    if (list.style() == Node::Style::block) {
      std::string_view rest =
          source().substr(name->node.end(), line_end(name->node.end()) - name->node.end());
      while (!rest.empty() && (rest.back() == '\n' || rest.back() == '\r')) rest.remove_suffix(1);
      line += rest;
    }
    lines.push_back(std::move(line));
  }
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
  if (auto mine = own(file.node); !mine) return mine;
  PendingOfFile& of_file = pending_[&file];
  for (const Entry& entry : file.entries) {
    for (const Name& listed : entry.names) {
      if (listed.text() != name) continue;
      if (!entry.when.is_always()) continue;
      of_file.listed[&entry].push_back({std::string{name}, decision});
      return own(entry.node);
    }
  }
  of_file.added.push_back({std::string{name}, decision});
  return {};
}

Result<void> Editor::remove(const FileEntry& file, std::string_view name) {
  for (const Entry& entry : file.entries) {
    for (const Name& listed : entry.names) {
      if (listed.text() != name) continue;
      if (auto mine = own(entry.node); !mine) return mine;
      pending_[&file].listed[&entry].push_back({std::string{name}, std::nullopt});
      return {};
    }
  }
  return base::fail(Fault::not_found, fmt::format("{}: '{}' is not listed in '{}'",
                                                  document().name(), name, file.path));
}

Result<void> Editor::settle(const FileEntry& file, const Entry& entry,
                            const std::vector<Pending>& pending, std::vector<const Entry*>& gone) {
  // Alike ones together, in the order in which they first come.
  std::vector<std::pair<std::optional<Decision>, std::vector<const Name*>>> groups;
  std::size_t decided = 0;
  for (const Name& name : entry.names) {
    const auto found = std::find_if(pending.rbegin(), pending.rend(),
                                    [&](const Pending& one) { return one.name == name.text(); });
    if (found == pending.rend()) continue;
    ++decided;
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& one) { return one.first == found->decision; });
    if (group == groups.end()) {
      groups.push_back({found->decision, {&name}});
    } else {
      group->second.push_back(&name);
    }
  }
  // One group may stay, where no other name does.
  auto stays = groups.end();
  if (decided == entry.names.size()) {
    stays = std::find_if(groups.begin(), groups.end(),
                         [](const auto& group) { return group.first.has_value(); });
    if (stays == groups.end()) {
      gone.push_back(&entry);
      return {};
    }
    if (stays->first->mode != entry.mode)
      if (auto done = set_mode(entry, stays->first->mode); !done) return done;
    if (stays->first->rationale != entry.rationale)
      if (auto done = set_rationale(entry, stays->first->rationale); !done) return done;
  }
  std::vector<const Name*> leaving;
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    if (group == stays) continue;
    if (group->first) move_out(file, entry, group->second, *group->first);
    leaving.insert(leaving.end(), group->second.begin(), group->second.end());
  }
  return leaving.empty() ? Result<void>{} : remove_names(entry, leaving);
}

Result<void> Editor::settle_all() {
  for (const auto& [file, of_file] : pending_) {
    std::vector<const Entry*> gone;
    for (const auto& [entry, pending] : of_file.listed)
      if (auto done = settle(*file, *entry, pending, gone); !done) return done;
    if (!gone.empty()) {
      const Others others = of_file.added.empty() ? Others::none : Others::added;
      if (auto done = remove_entries(*file, gone, others); !done) return done;
    }
    std::vector<std::pair<Decision, std::vector<std::string>>> groups;
    for (const Pending& one : of_file.added) {
      const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& other) {
        return other.first == *one.decision;
      });
      if (group == groups.end()) {
        groups.push_back({*one.decision, {one.name}});
      } else {
        group->second.push_back(one.name);
      }
    }
    for (const auto& [decision, names] : groups)
      if (auto done = add_entry(*file, names, decision); !done) return done;
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
  std::string text;
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
