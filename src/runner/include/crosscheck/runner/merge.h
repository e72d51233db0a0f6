#pragma once

#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"

// Several runs of one combination, the shards of one above all, as one run. Pure.
namespace crosscheck::runner {

struct MergePart {
  std::string name;  // of the file, for messages
  base::RunResults run;
};

struct Merged {
  base::RunResults run;
  std::vector<std::string> notes;    // a shard that came twice, a run given twice
  std::vector<std::string> missing;  // shards of which there is no run, in words
};

// Every attempt of every part once. The order of the parts makes no difference to any byte of the
// result: attempts of a test are numbered through in the order in which their runs began, results
// stand in the order of their tests. The same run twice counts once. Refused, with the names of two
// parts that do not go together: other combinations or configurations, shards of different plans, a
// run of which two parts say different things.
[[nodiscard]] base::Result<Merged> merge(std::vector<MergePart> parts);

}  // namespace crosscheck::runner
