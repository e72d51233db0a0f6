#include <unistd.h>

#include <cstdint>
#include <string>

#include "crosscheck/base/file.h"
#include "settings.h"

// A settings file of any bytes is read or refused with its name, and nothing else.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = "/tmp/settings_fuzz." + std::to_string(::getpid()) + ".yaml";
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (!crosscheck::base::write_file_atomically(path, text)) return 0;
  const auto loaded = crosscheck::cli::load_settings(path, {}, {});
  if (!loaded && loaded.error().message.find(path) == std::string::npos) __builtin_trap();
  return 0;
}
