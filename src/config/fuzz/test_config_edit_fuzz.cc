#include <cstdint>
#include <cstdlib>

#include "crosscheck/config/edit.h"
#include "crosscheck/config/load.h"

using namespace crosscheck;
using namespace crosscheck::config;

// The first byte chooses a change; one that is made leaves a configuration that loads and says it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text{reinterpret_cast<const char*>(data) + 1, size - 1};
  const auto load_text = [](const std::string& from) {
    return load("t.yaml", [&](const std::string&) -> base::Result<std::string> { return from; });
  };
  const Loaded loaded = load_text(text);
  if (!loaded.ok() || loaded.config->files.empty()) return 0;
  const FileEntry& file = loaded.config->files.front();
  Editor editor{*loaded.config};
  Decision decision{Mode::xfail, Rationale{}};
  decision.rationale->text = "why";
  std::string name = "Fuzz::added";
  const std::size_t entry = data[0] >> 1U;
  if (entry < file.entries.size()) name = file.entries[entry].names.front().text();
  const bool removes = data[0] % 2 == 1;
  if (!(removes ? editor.remove(file, name) : editor.decide(file, name, decision))) return 0;
  const auto edited = editor.apply();
  if (!edited) return 0;
  const Loaded again = load_text(*edited);
  if (!again.ok()) std::abort();
  if (removes) return 0;
  for (const Entry& after : again.config->files.front().entries)
    for (const Name& one : after.names)
      if (one.text() == name && after.mode == decision.mode &&
          after.rationale == decision.rationale)
        return 0;
  std::abort();
}
