#include "gate_progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "command.h"
#include "crosscheck/base/text.h"

namespace crosscheck::cli {
namespace {

struct Left {
  std::size_t least = 0;
  std::size_t most = 0;
  base::Duration soonest{0};
  base::Duration latest{0};
};

Left what_is_left(const gate::Manifest& manifest, const gate::Matrix& matrix,
                  const std::vector<gate::CellId>& cells, const Estimate& estimate) {
  Left left;
  for (const auto& id : cells) {
    const auto of_cell = gate::remaining(manifest, id, matrix.launches(id));
    left.least += of_cell.least;
    left.most += of_cell.most;
    left.soonest += estimate.of(id, of_cell.least);
    left.latest += estimate.of(id, of_cell.most);
  }
  return left;
}

std::string to_text(const Left& left) {
  return fmt::format("{} to {} launches, about {} to {}", left.least, left.most,
                     base::to_human(left.soonest), base::to_human(left.latest));
}

}  // namespace

Estimate::Estimate(const gate::Matrix& matrix, const std::vector<gate::CellId>& cells) {
  for (const auto& id : cells) {
    for (const auto& launch : matrix.launches(id)) add(id, launch.took);
  }
}

void Estimate::add(const gate::CellId& id, base::Duration took) {
  for (auto* sum : {&of_cell_[id], &of_all_}) {
    sum->took += took;
    ++sum->launches;
  }
}

base::Duration Estimate::of(const gate::CellId& id, std::size_t launches) const {
  const auto found = of_cell_.find(id);
  const auto& known = found == of_cell_.end() ? of_all_ : found->second;
  const auto mean =
      known.launches == 0 ? k_guess : known.took / static_cast<std::int64_t>(known.launches);
  return mean * static_cast<std::int64_t>(launches);
}

std::string gate_plan(const gate::Manifest& manifest, const gate::Matrix& matrix,
                      const std::vector<gate::CellId>& cells) {
  const Estimate estimate{matrix, cells};
  std::string text;
  for (const auto& id : cells) {
    text += fmt::format("{:<40} {}\n", gate::to_string(id),
                        to_text(what_is_left(manifest, matrix, {id}, estimate)));
  }
  text += fmt::format("{}: {}", base::count_of(cells.size(), "cell"),
                      to_text(what_is_left(manifest, matrix, cells, estimate)));
  if (estimate.guesses()) {
    text +=
        fmt::format(", if a launch takes {}: none was made yet", base::to_human(Estimate::k_guess));
  }
  return text + "\n";
}

GateProgress::GateProgress(const gate::Manifest& manifest, const gate::Matrix& matrix,
                           const std::vector<gate::CellId>& cells)
    : manifest_{manifest},
      matrix_{matrix},
      cells_{cells},
      estimate_{matrix, cells},
      interactive_{is_interactive()} {}

GateProgress::~GateProgress() { clear(); }

void GateProgress::about(const gate::LaunchRequest& request) {
  if (!interactive_) return;
  std::fprintf(stderr, "\r\033[K%s %s %s; left: %s", gate::to_string(request.cell).c_str(),
               request.key.c_str(), std::string{to_string(request.side)}.c_str(),
               to_text(what_is_left(manifest_, matrix_, cells_, estimate_)).c_str());
  shown_ = true;
}

void GateProgress::done(const gate::CellId& id, base::Duration took) { estimate_.add(id, took); }

void GateProgress::ended(const gate::CellId& id, const std::vector<gate::GateResult>& gates) {
  std::string text;
  for (const auto& gate : gates) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", to_string(gate.gate),
                        to_string(gate.status));
  }
  clear();
  std::fprintf(stderr, "%zu/%zu %s: %s\n", ++ended_, cells_.size(), gate::to_string(id).c_str(),
               text.c_str());
}

void GateProgress::clear() {
  if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
}

}  // namespace crosscheck::cli
