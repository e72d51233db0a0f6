#pragma once

#include <map>
#include <string>
#include <vector>

#include "crosscheck/gate/matrix.h"

// What `crosscheck gate run` says before and while it measures.
namespace crosscheck::cli {

// How long launches will take, by those that were made: of the same cell, else of all.
class Estimate {
 public:
  // Of a launch before any was made: importing torch, and a small case.
  static constexpr base::Duration k_guess = std::chrono::seconds{6};

  Estimate(const gate::Matrix& matrix, const std::vector<gate::CellId>& cells);
  void add(const gate::CellId& id, base::Duration took);
  [[nodiscard]] bool guesses() const { return of_all_.launches == 0; }
  [[nodiscard]] base::Duration of(const gate::CellId& id, std::size_t launches) const;

 private:
  struct Sum {
    base::Duration took{0};
    std::size_t launches = 0;
  };
  std::map<gate::CellId, Sum> of_cell_;
  Sum of_all_;
};

// Each cell's launches and how long they will take, a line a cell, and the sum.
[[nodiscard]] std::string gate_plan(const gate::Manifest& manifest, const gate::Matrix& matrix,
                                    const std::vector<gate::CellId>& cells);

// On standard error: each launch on a terminal, each cell's end everywhere. Refers to all that it
// is given.
class GateProgress {
 public:
  GateProgress(const gate::Manifest& manifest, const gate::Matrix& matrix,
               const std::vector<gate::CellId>& cells);
  ~GateProgress();
  GateProgress(const GateProgress&) = delete;
  GateProgress& operator=(const GateProgress&) = delete;

  void about(const gate::LaunchRequest& request);
  void done(const gate::CellId& id, base::Duration took);
  void ended(const gate::CellId& id, const std::vector<gate::GateResult>& gates);

 private:
  void clear();

  const gate::Manifest& manifest_;
  const gate::Matrix& matrix_;
  const std::vector<gate::CellId>& cells_;
  Estimate estimate_;
  bool interactive_;
  bool shown_ = false;
  std::size_t ended_ = 0;
};

}  // namespace crosscheck::cli
