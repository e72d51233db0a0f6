#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "crosscheck/base/digest.h"
#include "crosscheck/memory/link.h"
#include "crosscheck/memory/rules.h"

using namespace crosscheck::memory;

// Any bytes as a Python file: what is read of it is in order, and the same when it is read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Extractor extractor = *Extractor::make();
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  std::vector<Source> sources{read_source(extractor, "a.py", text)};
  sources.push_back(read_source(extractor, "b/a.py", text));
  if (sources[0].facts != sources[1].facts) std::abort();
  for (const Definition& definition : sources[0].facts.definitions) {
    if (definition.name.empty() || definition.first_line < 1 ||
        definition.line < definition.first_line || definition.last_line < definition.line ||
        !crosscheck::base::is_sha256_hex(definition.body))
      std::abort();
  }
  const Linked linked{sources};
  const Narrowing narrowing{built_in_rules(),
                            {"compile", "autograd", "distributed", "device:cuda", "device:cpu"}};
  for (std::uint32_t s = 0; s < sources.size(); ++s)
    for (std::uint32_t d = 0; d < sources[s].facts.definitions.size(); ++d) {
      if (linked.content({s, d}).size() != 64) std::abort();
      (void)narrowing.definition(sources[s], sources[s].facts.definitions[d]);
    }
  return 0;
}
