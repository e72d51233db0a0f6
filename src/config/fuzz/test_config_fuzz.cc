#include <cstdint>
#include <cstdlib>

#include "crosscheck/config/check.h"
#include "crosscheck/config/diff.h"
#include "crosscheck/config/format.h"
#include "crosscheck/config/load.h"
#include "crosscheck/config/merge.h"

using namespace crosscheck;
using namespace crosscheck::config;

// What loads can be ruled by, merged with itself, exported, compared; what it becomes loads again
// and says the same. What parses is formatted once and for all.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  const auto load_text = [](const std::string& from) {
    return load("t.yaml", [&](const std::string&) -> base::Result<std::string> { return from; });
  };
  const Loaded loaded = load_text(text);
  for (const Finding& finding : loaded.findings) (void)to_string(finding);
  if (!loaded.config) return 0;
  if (const auto once = format(*loaded.config->documents.front())) {
    std::vector<Finding> findings;
    const auto again = Document::parse("t.yaml", *once, findings);
    if (!again) std::abort();
    const auto twice = format(*again);
    if (!twice || *twice != *once) std::abort();
  }
  if (!loaded.ok()) return 0;
  (void)check_against(*loaded.config, {}, {});
  (void)check_operators(*loaded.config, "add\n");
  if (!diff(*loaded.config, *loaded.config).empty()) std::abort();
  std::vector<Config> parts;
  parts.push_back(*loaded.config);
  const Written merged = merge(std::move(parts));
  if (has_errors(merged.findings)) std::abort();
  const Loaded again = load_text(merged.text);
  if (!again.ok() || !diff(*loaded.config, *again.config).empty()) std::abort();
  (void)export_spyre(*loaded.config, {});
  return 0;
}
