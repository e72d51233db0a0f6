#include "crosscheck/runner/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "crosscheck/base/digest.h"
#include "text.h"

namespace crosscheck::runner {
namespace {

using base::Duration;
using base::fail;
using base::Fault;
using base::Result;

constexpr std::size_t k_digest_length = 16;

std::string selection_digest(const std::vector<CollectedTest>& tests,
                             std::span<const std::size_t> selected) {
  std::string names;
  for (const auto i : selected) {
    names += tests[i].node_id;
    names += '\n';
  }
  return base::sha256_hex(names).substr(0, k_digest_length);
}

// Adds up what a range takes, test by test.
class Cost {
 public:
  Cost(const std::vector<CollectedTest>& tests, std::span<const std::size_t> selected,
       std::span<const Duration> expected, Duration start_cost)
      : tests_{tests}, selected_{selected}, expected_{expected}, start_cost_{start_cost} {}

  void clear() {
    total_ = Duration{0};
    file_ = nullptr;
  }
  // What it would be with the test at `at`, which stands behind those so far.
  [[nodiscard]] Duration with(std::size_t at) const {
    if (expected_[at] <= Duration{0}) return total_;
    return total_ + expected_[at] + (is_new_file(at) ? start_cost_ : Duration{0});
  }
  void add(std::size_t at) {
    total_ = with(at);
    if (expected_[at] > Duration{0}) file_ = &tests_[selected_[at]].id.file;
  }
  [[nodiscard]] Duration total() const { return total_; }

 private:
  [[nodiscard]] bool is_new_file(std::size_t at) const {
    return file_ == nullptr || *file_ != tests_[selected_[at]].id.file;
  }

  const std::vector<CollectedTest>& tests_;
  std::span<const std::size_t> selected_;
  std::span<const Duration> expected_;
  Duration start_cost_;
  Duration total_{0};
  const std::string* file_ = nullptr;  // of the last test that takes time
};

// Where `size` tests are cut so that no part takes longer than `most`: the end of each part, as
// many as needed. A part ends early where each of the last `count` must get one.
std::vector<std::size_t> cut(Cost cost, std::size_t size, Duration most, std::size_t count) {
  std::vector<std::size_t> ends;
  cost.clear();
  for (std::size_t at = 0; at < size; ++at) {
    const bool empty = at == (ends.empty() ? 0 : ends.back());
    const bool one_each = ends.size() < count && size - at <= count - ends.size() - 1;
    if (!empty && (cost.with(at) > most || one_each)) {
      ends.push_back(at);
      cost.clear();
    }
    cost.add(at);
  }
  if (size > 0) ends.push_back(size);
  return ends;
}

bool read_number(std::string_view& text, std::size_t& number, std::string_view behind) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(behind)) return false;
  text.remove_prefix(behind.size());
  return true;
}

}  // namespace

std::string to_string(const Shard& shard) {
  return fmt::format("{}/{}:{}-{}:{}", shard.index, shard.count, shard.begin, shard.end,
                     shard.digest);
}

Result<ShardRequest> parse_shard(std::string_view text) {
  const auto wrong = [given = std::string{text}](std::string_view why) {
    return fail(Fault::usage, fmt::format("'{}' is no shard: {}", given, why),
                "write it as 2/4, or take what `crosscheck plan` emitted");
  };
  ShardRequest request;
  std::string_view rest = text;
  if (!read_number(rest, request.index, "/")) return wrong("expected I/N");
  const bool bare = text.find(':') == std::string_view::npos;
  if (!read_number(rest, request.count, bare ? "" : ":")) return wrong("expected I/N");
  if (request.count == 0 || request.count > Shard::k_most) {
    return wrong(fmt::format("N is from 1 to {}", Shard::k_most));
  }
  if (request.index == 0 || request.index > request.count) return wrong("I is from 1 to N");
  if (bare) {
    if (!rest.empty()) return wrong("expected I/N");
    return request;
  }
  Shard shard{request.index, request.count, 0, 0, ""};
  if (!read_number(rest, shard.begin, "-") || !read_number(rest, shard.end, ":") ||
      shard.end < shard.begin || rest.size() != k_digest_length ||
      !std::all_of(
          rest.begin(), rest.end(), [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); })) {
    return wrong("what follows its first colon is not as `crosscheck plan` writes it");
  }
  shard.digest = rest;
  request.planned = std::move(shard);
  return request;
}

std::vector<Duration> expected_times(const std::vector<CollectedTest>& tests,
                                     const std::vector<std::size_t>& selected,
                                     const KnownTimes& times, const PlanOptions& options) {
  std::vector<Duration> expected;
  expected.reserve(selected.size());
  for (const auto i : selected) {
    const auto known = times.find(tests[i].id);
    expected.push_back(known == times.end() ? options.unknown_test : known->second);
  }
  return expected;
}

std::vector<Shard> partition(const std::vector<CollectedTest>& tests,
                             std::span<const std::size_t> selected,
                             std::span<const Duration> expected, Duration start_cost,
                             std::size_t count) {
  const Cost cost{tests, selected, expected, start_cost};
  const auto size = selected.size();
  Duration least{0};
  Duration most{0};
  {
    Cost one = cost;
    Cost all = cost;
    for (std::size_t at = 0; at < size; ++at) {
      one.clear();
      least = std::max(least, one.with(at));
      all.add(at);
    }
    most = std::max(all.total(), least);
  }
  while (least < most) {
    const auto middle = least + (most - least) / 2;
    if (cut(cost, size, middle, count).size() <= count) {
      most = middle;
    } else {
      least = middle + Duration{1};
    }
  }
  auto ends = cut(cost, size, most, count);
  ends.resize(count, size);
  const auto digest = selection_digest(tests, selected);
  std::vector<Shard> shards;
  std::size_t begin = 0;
  for (const auto end : ends) {
    shards.push_back({shards.size() + 1, count, begin, end, digest});
    begin = end;
  }
  return shards;
}

Duration expected_of(const Shard& shard, const std::vector<CollectedTest>& tests,
                     std::span<const std::size_t> selected, std::span<const Duration> expected,
                     Duration start_cost) {
  Cost cost{tests, selected, expected, start_cost};
  for (auto at = shard.begin; at < std::min(shard.end, selected.size()); ++at) cost.add(at);
  return cost.total();
}

Result<Shard> shard_of(const ShardRequest& request, const std::vector<CollectedTest>& tests,
                       std::span<const std::size_t> selected, std::span<const Duration> expected,
                       Duration start_cost) {
  if (!request.planned) {
    return partition(tests, selected, expected, start_cost, request.count)[request.index - 1];
  }
  const auto& planned = *request.planned;
  if (planned.end > selected.size() || planned.digest != selection_digest(tests, selected)) {
    return fail(Fault::environment,
                fmt::format("shard {} was planned over another selection than the {} tests of "
                            "this one (digest {})",
                            to_string(planned), selected.size(), selection_digest(tests, selected)),
                "give `crosscheck run` the inventory, the configuration and the selection that "
                "`crosscheck plan` had");
  }
  return planned;
}

}  // namespace crosscheck::runner
