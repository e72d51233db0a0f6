#include "reaper.h"

#include <unistd.h>

#include <string>

#include "orphans.h"

namespace crosscheck::runner {
namespace {

// One line a group: "+ 12" begins, "- 12" has ended. At the end of the input the others are
// killed, and what began with the mark, the argument.
constexpr const char* k_script = R"(
groups=' '
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
# What is killed may have started more meanwhile.
while
  found=$(grep -lszxF -- "$1" /proc/[0-9]*/environ)
  [ -n "$found" ] && [ "$found" != "$before" ]
do
  for file in $found; do
    process=${file#/proc/}
    kill -KILL "${process%/environ}" 2>/dev/null
  done
  before=$found
done
)";

}  // namespace

base::Result<Reaper> Reaper::start() {
  auto pipe = base::make_pipe();
  if (!pipe) return tl::unexpected(pipe.error());
  base::ProcessSpec spec;
  spec.arguments = {"/bin/sh", "-c", k_script, "crosscheck-reaper", runner_mark()};
  spec.descriptors = {{pipe->read.get(), 0}};
  auto process = base::Process::spawn(spec);
  if (!process) return tl::unexpected(process.error());
  return Reaper{std::move(*process), std::move(pipe->write)};
}

void Reaper::tell(char what, pid_t leader) {
  const std::string line = std::string{what} + " " + std::to_string(leader) + "\n";
  // Short enough for one write to a pipe. Should the reaper be gone, workers still die with this
  // program.
  [[maybe_unused]] const auto written = ::write(input_.get(), line.data(), line.size());
}

}  // namespace crosscheck::runner
