#include "crosscheck/profile/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace crosscheck::profile {
namespace {

namespace json = base::json;

constexpr std::array<std::pair<std::string_view, Answer>, 5> k_answers{
    {{"native", Answer::native},
     {"composite_implicit", Answer::composite_implicit},
     {"composite_explicit", Answer::composite_explicit},
     {"cpu_fallback", Answer::cpu_fallback},
     {"missing", Answer::missing}}};

std::string text_of(const json::object& line, std::string_view key) {
  const json::value* value = line.if_contains(key);
  return value != nullptr && value->is_string() ? std::string{value->get_string()} : "";
}

std::vector<std::string> texts_of(const json::object& line, std::string_view key) {
  std::vector<std::string> all;
  if (const json::value* value = line.if_contains(key); value != nullptr && value->is_array())
    for (const json::value& one : value->get_array())
      if (one.is_string()) all.emplace_back(one.get_string());
  return all;
}

std::int64_t number_of(const json::object& line, std::string_view key) {
  const json::value* value = line.if_contains(key);
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

Kernel kernel_of(std::string_view text) {
  if (text == "kernel") return Kernel::kernel;
  if (text == "math") return Kernel::math;
  if (text == "default") return Kernel::default_backend;
  if (text == "fallback") return Kernel::fallback;
  return Kernel::none;
}

bool is_composite(const OperatorFacts& facts) {
  return facts.kernel == Kernel::math || facts.kernel == Kernel::default_backend;
}

// From the weakest: a composite is as strong as the weakest that it calls.
enum class Strength : std::uint8_t { none, through_cpu, on_device };

struct Verdict {
  Strength strength = Strength::on_device;
  std::string because;  // the operator at the end of the chain, or why a fallback is of no use
};

class Judge {
 public:
  explicit Judge(const std::map<std::string, OperatorFacts, std::less<>>& facts) : facts_{facts} {}

  const Verdict& of(const std::string& op) {
    if (const auto known = verdicts_.find(op); known != verdicts_.end()) return known->second;
    // While it is being decided it decides nothing: an operator that comes to call itself is as
    // strong as the others that it calls.
    verdicts_[op] = Verdict{};
    Verdict verdict = decide(op);
    return verdicts_[op] = std::move(verdict);
  }

 private:
  Verdict decide(const std::string& op) {
    const auto found = facts_.find(op);
    if (found == facts_.end()) return {};  // of another namespace
    const OperatorFacts& facts = found->second;
    if (facts.kernel == Kernel::none) return {Strength::none, op};
    if (facts.kernel == Kernel::fallback)
      return facts.cannot_fall_back.empty() ? Verdict{Strength::through_cpu, op}
                                            : Verdict{Strength::none, op};
    if (!is_composite(facts)) return {};
    Verdict weakest;
    for (const std::string& callee : facts.callees ? *facts.callees : facts.made_of) {
      const Verdict verdict = of(callee);
      if (verdict.strength < weakest.strength) weakest = verdict;
    }
    return weakest;
  }

  const std::map<std::string, OperatorFacts, std::less<>>& facts_;
  std::map<std::string, Verdict, std::less<>> verdicts_;
};

// The most telling of several of one data type.
void add(DtypeResult& to, const DtypeResult& more) {
  to.ran += more.ran;
  to.of += more.of;
  const auto weight = [](std::string_view outcome) {
    return outcome == "crashed" || outcome == "timed_out" ? 3
           : outcome == "missing"                         ? 2
           : outcome == "runs" || outcome.empty()         ? 0
                                                          : 1;
  };
  if (to.outcome.empty() || weight(more.outcome) > weight(to.outcome)) {
    to.outcome = more.outcome;
    to.missing = more.missing;
    to.message = more.message;
  }
}

void compare_with_lists(Support& support, const std::vector<OperatorList>& lists, bool has_facts,
                        const OperatorFacts* facts) {
  for (const OperatorList& list : lists) {
    const auto found = list.operators.find(support.op);
    if (found == list.operators.end()) continue;
    const ListedOperator& listed = found->second;
    support.listed.push_back(fmt::format("{}:{}", list.source, listed.line));
    support.autograd = support.autograd || listed.autograd;
    if (has_facts && facts == nullptr)
      support.disagreements.push_back(support.listed.back() +
                                      " lists it, and torch has no such operator");
    if (facts != nullptr && facts->kernel != Kernel::kernel)
      support.disagreements.push_back(
          fmt::format("{} lists it, and the dispatcher has no kernel of the device for it",
                      support.listed.back()));
    if (listed.dtypes.empty()) continue;
    for (const auto& [dtype, result] : support.dtypes) {
      const bool said = std::ranges::find(listed.dtypes, dtype) != listed.dtypes.end();
      if (said && result.outcome != "runs" && result.ran == 0)
        support.disagreements.push_back(fmt::format("{} lists {}, which does not run: {}",
                                                    support.listed.back(), dtype, result.outcome));
      if (!said && result.outcome == "runs")
        support.disagreements.push_back(
            fmt::format("{} does not list {}, which runs", support.listed.back(), dtype));
    }
  }
  if (!lists.empty() && support.listed.empty() && facts != nullptr &&
      facts->kernel == Kernel::kernel)
    support.disagreements.emplace_back("the device has a kernel for it, and no list names it");
}

void compare_with_samples(Support& support) {
  bool runs = false;
  bool all_missing = !support.dtypes.empty();
  for (const auto& [dtype, result] : support.dtypes) {
    runs = runs || result.outcome == "runs";
    all_missing = all_missing && result.outcome == "missing";
  }
  if (support.answer == Answer::missing && runs)
    support.disagreements.push_back(
        "samples run on the device" +
        (support.because.empty() ? std::string{} : ", none of which needs " + support.because));
  if (support.answer != Answer::missing && all_missing)
    support.disagreements.push_back("no sample runs: " + support.dtypes.begin()->second.missing +
                                    " is missing");
}

}  // namespace

std::string_view to_string(Answer answer) {
  return std::ranges::find(k_answers, answer, &std::pair<std::string_view, Answer>::second)->first;
}

std::optional<Answer> parse_answer(std::string_view text) {
  const auto found =
      std::ranges::find(k_answers, text, &std::pair<std::string_view, Answer>::first);
  if (found == k_answers.end()) return std::nullopt;
  return found->second;
}

void SupportBook::take(std::string_view ev, const json::object& line) {
  if (ev != "operator" && ev != "callees") return;
  const std::string op = text_of(line, "op");
  if (op.empty()) return;
  OperatorFacts& facts = facts_[op];
  if (ev == "callees") {
    facts.callees = texts_of(line, "callees");
    return;
  }
  facts.kernel = kernel_of(text_of(line, "kernel"));
  facts.registered = text_of(line, "registered");
  facts.cannot_fall_back = text_of(line, "cannot_fall_back");
  facts.made_as = text_of(line, "made_as");
  facts.made_of = texts_of(line, "made_of");
}

void SupportBook::take_result(const std::string& dtype, const json::object& result) {
  const std::string op = text_of(result, "op");
  if (op.empty()) return;  // samples that begin with no operator of torch's
  DtypeResult one{.outcome = text_of(result, "outcome"),
                  .ran = number_of(result, "ran"),
                  .of = number_of(result, "of"),
                  .missing = text_of(result, "missing"),
                  .message = text_of(result, "message")};
  add(results_[op][dtype], one);
}

void SupportBook::take_death(const std::string& dtype, const std::vector<std::string>& operators,
                             bool hung, const std::string& how) {
  for (const std::string& op : operators) {
    if (op.empty()) continue;
    add(results_[op][dtype], {.outcome = hung ? "timed_out" : "crashed",
                              .ran = 0,
                              .of = 1,
                              .missing = {},
                              .message = how});
  }
}

void SupportBook::take_list(OperatorList list) { lists_.push_back(std::move(list)); }

std::vector<Support> SupportBook::decide() const {
  std::set<std::string> names;
  for (const auto& [op, facts] : facts_) names.insert(op);
  for (const OperatorList& list : lists_)
    for (const auto& [op, listed] : list.operators) names.insert(op);
  Judge judge{facts_};
  std::vector<Support> all;
  all.reserve(names.size());
  for (const std::string& op : names) {
    Support& support = all.emplace_back();
    support.op = op;
    const auto found = facts_.find(op);
    const OperatorFacts* facts = found == facts_.end() ? nullptr : &found->second;
    if (facts == nullptr) {
      support.answer = facts_.empty() ? Answer::native : Answer::missing;
    } else {
      support.registered = facts->registered;
      support.established.emplace_back("dispatcher");
      const Verdict verdict = judge.of(op);
      support.answer = verdict.strength == Strength::none          ? Answer::missing
                       : verdict.strength == Strength::through_cpu ? Answer::cpu_fallback
                       : facts->kernel == Kernel::math             ? Answer::composite_implicit
                       : facts->kernel == Kernel::default_backend  ? Answer::composite_explicit
                                                                   : Answer::native;
      support.because = verdict.because == op ? facts->cannot_fall_back : verdict.because;
      if (is_composite(*facts)) {
        support.callees_seen = facts->callees.has_value() || !facts->made_of.empty();
        support.callees = facts->callees ? *facts->callees : facts->made_of;
        if (support.callees_seen)
          support.established.push_back(facts->callees ? "callees" : facts->made_as);
      }
    }
    if (const auto results = results_.find(op); results != results_.end()) {
      support.established.emplace_back("samples");
      support.dtypes = results->second;
      for (auto& [dtype, result] : support.dtypes)
        if (result.ran > 0 && result.outcome != "runs" && result.outcome != "crashed" &&
            result.outcome != "timed_out")
          result.outcome = "partly";
    }
    compare_with_lists(support, lists_, !facts_.empty(), facts);
    if (!support.listed.empty()) support.established.emplace_back("list");
    compare_with_samples(support);
  }
  return all;
}

json::object to_json(const Support& support) {
  const auto texts = [](const auto& words) { return json::array(words.begin(), words.end()); };
  json::object object{{"op", support.op},
                      {"answer", to_string(support.answer)},
                      {"established", texts(support.established)}};
  if (!support.because.empty()) object["because"] = support.because;
  if (!support.registered.empty()) object["registered"] = base::to_utf8(support.registered);
  if (!support.callees.empty()) object["callees"] = texts(support.callees);
  if (!support.callees_seen) object["callees_seen"] = false;
  if (!support.dtypes.empty()) {
    json::object dtypes;
    for (const auto& [dtype, result] : support.dtypes) {
      json::object one{{"outcome", result.outcome}, {"ran", result.ran}, {"of", result.of}};
      if (!result.missing.empty()) one["missing"] = result.missing;
      if (!result.message.empty()) one["message"] = base::to_utf8(result.message, 1000);
      dtypes[dtype] = std::move(one);
    }
    object["dtypes"] = std::move(dtypes);
  }
  if (!support.listed.empty()) object["listed"] = texts(support.listed);
  if (support.autograd) object["autograd"] = true;
  if (!support.disagreements.empty()) object["disagreements"] = texts(support.disagreements);
  return object;
}

}  // namespace crosscheck::profile
