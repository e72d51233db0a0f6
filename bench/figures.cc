#include "figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/time.h"

namespace crosscheck::bench {

namespace json = base::json;

void Figures::add(Figure figure) {
  std::fprintf(stderr, "%s: %.3g %s\n", figure.name.c_str(), figure.ours, figure.unit.c_str());
  all_.push_back(std::move(figure));
}

void Figures::print() const {
  fmt::print("\n{:<56} {:>10} {:>12} {:>20}\n", "figure", "ours", "wanted", "PyTorch's relay");
  for (const Figure& f : all_) {
    const std::string wanted =
        f.wanted ? fmt::format("{} {:.4g}", f.at_least ? "≥" : "≤", *f.wanted) : "";
    fmt::print("{:<56} {:>10} {:>12} {:>20}{}\n", f.name, fmt::format("{:.3g} {}", f.ours, f.unit),
               wanted, f.theirs, f.holds() ? "" : "  missed");
  }
}

void Figures::save(const std::string& path, const json::object& facts) const {
  json::object all;
  if (std::filesystem::exists(path))
    all = need(base::parse_json(need(base::read_file(path)), path)).as_object();
  all["format"] = "crosscheck-bench";
  all["schema"] = 1;
  all["date"] =
      base::to_rfc3339(std::chrono::floor<std::chrono::seconds>(base::SystemClock{}.now()));
  all["cores"] = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  for (const auto& [name, value] : facts) all[name] = value;
  json::array figures;
  if (const auto* earlier = all.if_contains("figures")) figures = earlier->as_array();
  for (const Figure& f : all_) {
    json::object figure{{"name", f.name}, {"unit", f.unit}, {"ours", f.ours}};
    if (f.wanted) {
      figure[f.at_least ? "at_least" : "at_most"] = *f.wanted;
      figure["holds"] = f.holds();
    }
    if (!f.theirs.empty()) figure["pytorch_relay"] = f.theirs;
    const auto same = std::find_if(figures.begin(), figures.end(), [&](const json::value& one) {
      return one.at("name") == json::value(f.name);
    });
    if (same == figures.end()) {
      figures.push_back(std::move(figure));
    } else {
      *same = std::move(figure);
    }
  }
  all["figures"] = std::move(figures);
  need(base::write_file_atomically(path, base::pretty_json(all) + "\n"));
}

bool Figures::hold() const {
  return std::all_of(all_.begin(), all_.end(), [](const Figure& figure) { return figure.holds(); });
}

double proc_mb(std::string_view process, std::string_view name) {
  const std::string text = need(base::read_file(fmt::format("/proc/{}/status", process)));
  const auto at = text.find(name);
  if (at == std::string::npos) give_up("no " + std::string{name} + " in /proc");
  return std::strtod(text.c_str() + at + name.size(), nullptr) / 1024;
}

}  // namespace crosscheck::bench
