#include "results_file.h"

#include "crosscheck/base/file.h"
#include "crosscheck/base/gzip.h"

namespace crosscheck::cli {

base::Result<ResultsFile> read_results_file(const std::string& path, std::size_t limit) {
  auto bytes = base::read_file(path);
  if (!bytes) return tl::unexpected(bytes.error());
  const auto of_file = [&](base::Error error) {
    error.message = path + ": " + error.message;
    return tl::unexpected(std::move(error));
  };
  ResultsFile file;
  if (bytes->starts_with("\x1f\x8b")) {
    auto unpacked = base::gunzip(*bytes, limit);
    if (!unpacked) return of_file(unpacked.error());
    file.text = std::move(*unpacked);
    file.gzipped = std::move(*bytes);
  } else {
    file.text = std::move(*bytes);
  }
  auto run = base::parse_run_results(file.text);
  if (!run) return of_file(run.error());
  file.run = std::move(*run);
  return file;
}

base::Result<runner::Inventory> load_inventory(const std::string& path) {
  const auto text = base::read_file(path);
  if (!text) return tl::unexpected(text.error());
  return runner::parse_inventory(*text, path);
}

}  // namespace crosscheck::cli
