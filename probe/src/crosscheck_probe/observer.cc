// Counts the operators that torch's dispatcher runs, on every thread, in the phase that Python last
// said. Built against the installed torch by observer.py; loaded into its process. One source for
// torch 1.13 and later.
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// Where Python says in which phase the test is. Not a function: it changes around every comparison.
extern "C" {
volatile int crosscheck_phase = 0;
}

namespace {

constexpr std::array<const char*, 4> k_phases{"setup", "forward", "backward", "comparison"};
using Counts = std::array<std::uint64_t, k_phases.size()>;
using Totals = std::vector<std::pair<std::string, Counts>>;

// What one thread ran. Its mutex waits only while another thread takes the counts.
class Table {
 public:
  void count(const at::RecordFunction& function) {
    const std::lock_guard<std::mutex> lock{mutex_};
    auto& entry = entries_[function.name()];
    // The name of a schema that is gone may lie where another's lay.
    if (std::strcmp(entry.name.c_str(), function.name()) != 0) {
      give(entry, retired_);
      entry.name = function.name();
      entry.overload.clear();
      if (const auto found = function.operator_name()) {
        entry.overload = found->name;
        if (!found->overload_name.empty()) entry.overload += "." + found->overload_name;
      }
    }
    if (!entry.counted) {
      entry.counted = true;
      used_.push_back(&entry);
    }
    ++entry.counts[static_cast<std::size_t>(crosscheck_phase)];
  }

  void take(Totals& totals) {
    const std::lock_guard<std::mutex> lock{mutex_};
    std::move(retired_.begin(), retired_.end(), std::back_inserter(totals));
    retired_.clear();
    for (Entry* entry : used_) {
      give(*entry, totals);
      entry->counted = false;
    }
    used_.clear();
  }

 private:
  struct Entry {
    std::string name;
    std::string overload;  // empty: no operator
    Counts counts{};
    bool counted = false;  // is in `used_`
  };

  static void give(Entry& entry, Totals& totals) {
    if (!entry.overload.empty()) totals.emplace_back(entry.overload, entry.counts);
    entry.counts = Counts{};
  }

  std::mutex mutex_;
  // By where the name lies: its nodes, and so what `used_` points to, never move.
  std::unordered_map<const void*, Entry> entries_;
  std::vector<Entry*> used_;
  Totals retired_;
};

std::mutex tables_mutex;
std::vector<std::shared_ptr<Table>>& tables() {
  // Never destroyed: threads may run operators while the process ends.
  static auto* all = new std::vector<std::shared_ptr<Table>>;
  return *all;
}

Table& own_table() {
  thread_local const std::shared_ptr<Table> own = [] {
    auto table = std::make_shared<Table>();
    const std::lock_guard<std::mutex> lock{tables_mutex};
    tables().push_back(table);
    return table;
  }();
  return *own;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  own_table().count(function);
  return nullptr;
}

}  // namespace

extern "C" {

void crosscheck_observe() {
  at::addGlobalCallback(at::RecordFunctionCallback(&on_start).scopes({at::RecordScope::FUNCTION}));
}

// What ran since the last call, as JSON: {"forward": {"aten::add.Tensor": 2}}, sorted. Valid until
// the next call.
const char* crosscheck_take() {
  static std::string text;
  Totals totals;
  {
    const std::lock_guard<std::mutex> lock{tables_mutex};
    auto& all = tables();
    for (std::size_t i = 0; i < all.size();) {
      const bool thread_is_gone = all[i].use_count() == 1;
      all[i]->take(totals);
      if (thread_is_gone) {
        all[i] = all.back();
        all.pop_back();
      } else {
        ++i;
      }
    }
  }
  std::sort(totals.begin(), totals.end());
  text = "{";
  for (std::size_t phase = 0; phase < k_phases.size(); ++phase) {
    const auto before = text.size();
    for (std::size_t i = 0; i < totals.size();) {
      const auto& name = totals[i].first;
      std::uint64_t count = 0;
      for (; i < totals.size() && totals[i].first == name; ++i) count += totals[i].second[phase];
      if (count == 0) continue;
      if (text.size() == before) {
        text += text.size() == 1 ? "\"" : ",\"";
        text += k_phases[phase];
        text += "\":{\"";
      } else {
        text += ",\"";
      }
      text += name + "\":" + std::to_string(count);
    }
    if (text.size() != before) text += '}';
  }
  text += '}';
  return text.c_str();
}
}
