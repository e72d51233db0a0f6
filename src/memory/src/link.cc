#include "crosscheck/memory/link.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "crosscheck/base/digest.h"

namespace crosscheck::memory {
namespace {

using Node = std::uint32_t;

constexpr std::array<std::string_view, 8> k_fixtures{
    "setUp",        "tearDown",        "setUpClass",  "tearDownClass",
    "setup_method", "teardown_method", "setUpModule", "tearDownModule"};

struct ClassInfo {
  Node node = 0;
  std::uint32_t source = 0;
  std::unordered_map<std::string_view, Node> members;
  std::vector<std::uint32_t> bases;  // indices of classes
};

// A path without ".py" and "/__init__", its slashes as dots: what Python calls the module.
std::string module_name(std::string_view path) {
  std::string name{path.substr(0, path.size() - std::min<std::size_t>(3, path.size()))};
  if (name.ends_with("/__init__")) name.resize(name.size() - 9);
  std::ranges::replace(name, '/', '.');
  return name;
}

}  // namespace

// Finds what a name means.
class Linked::Names {
 public:
  Names(const std::vector<Source>& sources, const std::vector<Node>& first)
      : sources_{sources}, first_{first} {
    for (std::uint32_t s = 0; s < sources.size(); ++s)
      modules_.emplace(module_name(sources[s].path), s);
    names_.resize(sources.size());
    classes_of_.resize(sources.size());
    for (std::uint32_t s = 0; s < sources.size(); ++s) add_names(s);
    for (ClassInfo& info : classes_) find_bases(info);
  }

  std::vector<std::vector<Node>> edges() {
    std::vector<std::vector<Node>> all(first_.back());
    for (std::uint32_t s = 0; s < sources_.size(); ++s) {
      const auto& definitions = sources_[s].facts.definitions;
      for (std::uint32_t d = 0; d < definitions.size(); ++d) {
        const Node from = first_[s] + d;
        edges_of(s, definitions[d], from, all[from]);
        auto& edges = all[from];
        std::ranges::sort(edges);
        const auto tail = std::ranges::unique(edges);
        edges.erase(tail.begin(), tail.end());
        std::erase(edges, from);
      }
    }
    return all;
  }

  std::optional<Node> method(std::uint32_t source, const std::string& class_name,
                             std::string_view name) const {
    if (const auto found = class_of(source, class_name)) return find_member(*found, name, false);
    // A class that comes from another module.
    const auto named = find_name(source, class_name);
    if (!named) return {};
    const auto found = find_class(*named);
    if (!found) return {};
    return find_member(*found, name, false);
  }

 private:
  void add_names(std::uint32_t source) {
    const auto& definitions = sources_[source].facts.definitions;
    // Classes come before their members.
    for (std::uint32_t d = 0; d < definitions.size(); ++d) {
      const Definition& definition = definitions[d];
      const Node node = first_[source] + d;
      if (definition.class_name.empty()) names_[source][definition.name] = node;
      if (const auto outer = class_of(source, definition.class_name))
        classes_[*outer].members[definition.name] = node;
      if (definition.kind == Kind::klass) {
        const std::string whole = definition.class_name.empty()
                                      ? definition.name
                                      : definition.class_name + "." + definition.name;
        classes_of_[source][whole] = static_cast<std::uint32_t>(classes_.size());
        class_of_node_[node] = static_cast<std::uint32_t>(classes_.size());
        classes_.push_back({node, source, {}, {}});
      }
    }
  }

  std::optional<std::uint32_t> class_of(std::uint32_t source, const std::string& name) const {
    if (name.empty()) return {};
    const auto found = classes_of_[source].find(name);
    if (found == classes_of_[source].end()) return {};
    return found->second;
  }

  const Definition& definition(const ClassInfo& info) const {
    return sources_[info.source].facts.definitions[info.node - first_[info.source]];
  }

  void find_bases(ClassInfo& info) {
    for (const std::string& base : definition(info).bases) {
      const auto colon = base.find(':');
      const auto node =
          colon == std::string::npos
              ? find_name(info.source, base)
              : find_in_module(info.source, base.substr(0, colon), base.substr(colon + 1));
      if (!node) continue;
      if (const auto found = class_of_node_.find(*node); found != class_of_node_.end())
        info.bases.push_back(found->second);
    }
  }

  std::optional<Node> find_name(std::uint32_t source, std::string_view name) const {
    const auto found = names_[source].find(name);
    if (found != names_[source].end()) return found->second;
    for (const std::string& star : sources_[source].facts.stars)
      if (const auto module = find_module(source, star)) {
        const auto there = names_[*module].find(name);
        if (there != names_[*module].end()) return there->second;
      }
    return {};
  }

  // Modules lie relative to the importing file's folder or one above it, the nearest first.
  std::optional<std::uint32_t> find_module(std::uint32_t from, std::string_view name) const {
    std::string folder = sources_[from].path;
    const auto up = [&] {
      const auto slash = folder.rfind('/');
      const bool had = !folder.empty();
      folder.resize(slash == std::string::npos ? 0 : slash);
      return had;
    };
    up();
    const auto look = [&](const std::string& module) -> std::optional<std::uint32_t> {
      const auto found = modules_.find(module);
      if (found == modules_.end()) return {};
      return found->second;
    };
    const auto below = [&](std::string_view module) {
      std::string whole = folder;
      std::ranges::replace(whole, '/', '.');
      if (!whole.empty() && !module.empty()) whole += '.';
      return whole + std::string{module};
    };
    if (name.starts_with('.')) {
      name.remove_prefix(1);
      while (name.starts_with('.')) {
        name.remove_prefix(1);
        up();
      }
      return look(below(name));
    }
    do {
      if (const auto found = look(below(name))) return found;
    } while (up());
    return {};
  }

  std::optional<Node> find_in_module(std::uint32_t from, const std::string& module,
                                     std::string_view chain) const {
    const auto stop = chain.find('.');
    const std::string_view name = chain.substr(0, stop);
    if (const auto found = find_module(from, module)) {
      const auto there = names_[*found].find(name);
      if (there != names_[*found].end()) return there->second;
    }
    if (stop == std::string_view::npos) return {};
    const std::string inner = module + (module.ends_with('.') ? "" : ".") + std::string{name};
    if (const auto found = find_module(from, inner)) {
      const auto there = names_[*found].find(chain.substr(stop + 1));
      if (there != names_[*found].end()) return there->second;
    }
    return {};
  }

  // In the class or its bases; `skip`: in the bases alone.
  std::optional<Node> find_member(std::uint32_t index, std::string_view name, bool skip) const {
    std::vector<std::uint32_t> todo{index};
    for (std::size_t i = 0; i < todo.size(); ++i) {
      const ClassInfo& info = classes_[todo[i]];
      if (i > 0 || !skip) {
        const auto found = info.members.find(name);
        if (found != info.members.end()) return found->second;
      }
      for (const std::uint32_t base : info.bases)
        if (std::ranges::find(todo, base) == todo.end()) todo.push_back(base);
    }
    return {};
  }

  bool is_test(Node node, const ClassInfo& info) const {
    return sources_[info.source].facts.definitions[node - first_[info.source]].kind == Kind::test;
  }

  // Something that is named: of a class all but its tests.
  void name(Node node, std::vector<Node>& edges) const {
    edges.push_back(node);
    const auto found = class_of_node_.find(node);
    if (found == class_of_node_.end()) return;
    const ClassInfo& info = classes_[found->second];
    for (const auto& [member, at] : info.members)
      if (!is_test(at, info)) edges.push_back(at);
  }

  void edges_of(std::uint32_t source, const Definition& from, Node node, std::vector<Node>& edges) {
    const auto own =
        from.kind == Kind::klass ? find_class(node) : class_of(source, from.class_name);
    for (const std::string& use : from.uses) {
      std::optional<Node> found;
      const auto colon = use.find(':');
      if (use.starts_with('.') || use.starts_with('^')) {
        // A relative module begins with a dot too.
        if (colon == std::string::npos) {
          if (own) found = find_member(*own, std::string_view{use}.substr(1), use.front() == '^');
          if (found) edges.push_back(*found);
          continue;
        }
        found = find_in_module(source, use.substr(0, colon), use.substr(colon + 1));
      } else if (colon != std::string::npos) {
        found = find_in_module(source, use.substr(0, colon), use.substr(colon + 1));
      } else {
        found = find_name(source, use.starts_with('*') ? std::string_view{use}.substr(1) : use);
      }
      if (found) name(*found, edges);
    }
    if (from.kind == Kind::klass && own) {
      for (const std::uint32_t base : classes_[*own].bases) edges.push_back(classes_[base].node);
      for (const std::string_view fixture : k_fixtures)
        if (const auto found = classes_[*own].members.find(fixture);
            found != classes_[*own].members.end())
          edges.push_back(found->second);
    } else if (own) {
      edges.push_back(classes_[*own].node);
    }
  }

  std::optional<std::uint32_t> find_class(Node node) const {
    const auto found = class_of_node_.find(node);
    if (found == class_of_node_.end()) return {};
    return found->second;
  }

  const std::vector<Source>& sources_;
  const std::vector<Node>& first_;
  std::unordered_map<std::string, std::uint32_t> modules_;
  std::vector<std::unordered_map<std::string_view, Node>> names_;  // of modules
  std::vector<std::unordered_map<std::string, std::uint32_t>> classes_of_;
  std::unordered_map<Node, std::uint32_t> class_of_node_;
  std::vector<ClassInfo> classes_;
};

Linked::Linked(const std::vector<Source>& sources) : sources_{&sources} {
  first_.reserve(sources.size() + 1);
  first_.push_back(0);
  for (const Source& source : sources)
    first_.push_back(first_.back() + static_cast<Node>(source.facts.definitions.size()));
  source_of_.reserve(first_.back());
  for (std::uint32_t s = 0; s < sources.size(); ++s)
    source_of_.insert(source_of_.end(), sources[s].facts.definitions.size(), s);
  names_ = std::make_unique<Names>(sources, first_);
  edges_ = names_->edges();
  seen_.resize(first_.back());
}

Linked::Linked(Linked&&) noexcept = default;
Linked& Linked::operator=(Linked&&) noexcept = default;
Linked::~Linked() = default;

std::optional<Where> Linked::method(std::uint32_t source, const std::string& class_name,
                                    std::string_view name) const {
  const auto found = names_->method(source, class_name, name);
  if (!found) return {};
  return where(*found);
}

Where Linked::where(Node node) const {
  const std::uint32_t source = source_of_[node];
  return {source, node - first_[source]};
}

void Linked::reach(Node of, std::vector<Node>& found) const {
  ++search_;
  seen_[of] = search_;
  found.clear();
  const auto add = [&](Node from) {
    for (const Node to : edges_[from]) {
      if (seen_[to] == search_) continue;
      seen_[to] = search_;
      found.push_back(to);
    }
  };
  add(of);
  for (std::size_t i = 0; i < found.size(); ++i) add(found[i]);
  std::ranges::sort(found);
}

std::vector<Where> Linked::closure(Where of) const {
  std::vector<Node> found;
  reach(node(of), found);
  std::vector<Where> places;
  places.reserve(found.size());
  for (const Node at : found) places.push_back(where(at));
  return places;
}

std::string Linked::content(Where of) const {
  std::vector<Node> found;
  reach(node(of), found);
  const auto words = [&](const Definition& definition) {
    std::string text = qualified_name(definition) + '\0' + definition.body;
    for (const std::string& decorator : definition.decorators) text += '\0' + decorator;
    return text + '\n';
  };
  // By what they are, not where: a helper that moves changes nothing.
  std::vector<std::string> parts;
  parts.reserve(found.size());
  for (const Node at : found) parts.push_back(words(this->at(where(at))));
  std::ranges::sort(parts);
  const Definition& own = at(of);
  std::string text = own.body;
  for (const std::string& decorator : own.decorators) text += '\0' + decorator;
  text += '\n';
  for (const std::string& part : parts) text += part;
  return base::sha256_hex(text);
}

}  // namespace crosscheck::memory
