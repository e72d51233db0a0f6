// Counts the operators that torch's dispatcher runs, on every thread, in the phase that Python last
// said. Built against the installed torch by observer.py; loaded into its process. One source for
// torch 1.13 and later.
#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr int k_phases = 4;
using Counts = std::array<std::uint64_t, k_phases>;
using Totals = std::map<std::string, Counts>;

std::atomic<int> phase{0};

void add(Totals& totals, const std::string& name, const Counts& counts) {
  auto& total = totals[name];
  for (std::size_t i = 0; i < counts.size(); ++i) total[i] += counts[i];
}

// What one thread ran. Its mutex waits only while another thread takes the counts.
class Table {
 public:
  void count(const at::RecordFunction& function) {
    const std::lock_guard<std::mutex> lock{mutex_};
    auto& entry = entries_[function.name()];
    // The name of a schema that is gone may lie where another's lay.
    if (std::strcmp(entry.name.c_str(), function.name()) != 0) {
      retire(entry);
      entry.name = function.name();
      entry.overload.clear();
      if (const auto found = function.operator_name()) {
        entry.overload = found->name;
        if (!found->overload_name.empty()) entry.overload += "." + found->overload_name;
      }
    }
    ++entry.counts[static_cast<std::size_t>(phase.load(std::memory_order_relaxed))];
  }

  void take(Totals& totals) {
    const std::lock_guard<std::mutex> lock{mutex_};
    for (auto& pair : entries_) retire(pair.second);
    for (const auto& pair : retired_) add(totals, pair.first, pair.second);
    retired_.clear();
  }

 private:
  struct Entry {
    std::string name;
    std::string overload;  // empty: no operator
    Counts counts{};
  };

  void retire(Entry& entry) {
    if (entry.counts != Counts{} && !entry.overload.empty()) {
      add(retired_, entry.overload, entry.counts);
    }
    entry.counts = Counts{};
  }

  std::mutex mutex_;
  std::unordered_map<const void*, Entry> entries_;
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

void crosscheck_phase(int now) { phase.store(now, std::memory_order_relaxed); }

// "phase operator count" lines of what ran since the last call; valid until the next.
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
  text.clear();
  for (const auto& pair : totals) {
    for (std::size_t i = 0; i < pair.second.size(); ++i) {
      if (pair.second[i] == 0) continue;
      text += std::to_string(i) + ' ' + pair.first + ' ' + std::to_string(pair.second[i]) + '\n';
    }
  }
  return text.c_str();
}
}
