#include "crosscheck/runner/output.h"

#include <unistd.h>

#include <filesystem>

#include "crosscheck/base/file.h"
#include "crosscheck/base/gzip.h"

namespace crosscheck::runner {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Fault;
using base::Result;

Result<void> check_writable(const std::string& file, const char* option) {
  if (file.empty()) return {};
  auto folder = fs::path{file}.parent_path();
  if (folder.empty()) folder = ".";
  std::error_code error;
  if (fs::is_directory(file, error)) {
    return fail(Fault::usage, std::string{option} + ": " + file + " is a folder");
  }
  if (fs::is_other(file, error)) {  // /dev/null, a pipe: written to as it is
    if (::access(file.c_str(), W_OK) == 0) return {};
    return fail(Fault::read_only, std::string{option} + ": " + file + " may not be written");
  }
  if (!fs::is_directory(folder, error)) {
    return fail(Fault::environment,
                std::string{option} + ": the folder " + folder.string() + " does not exist",
                "make it: mkdir -p " + folder.string());
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return fail(Fault::read_only,
                std::string{option} + ": the folder " + folder.string() + " may not be written");
  }
  return {};
}

}  // namespace

Result<void> check_writable(const Files& files) {
  if (!files.junit.empty() && files.junit == files.results) {
    return fail(Fault::usage, "--junit and --results name one file: " + files.junit,
                "give each a file of its own");
  }
  if (auto junit = check_writable(files.junit, "--junit"); !junit) return junit;
  return check_writable(files.results, "--results");
}

Result<void> write_files(const base::RunResults& run, const Files& files) {
  Result<void> results;
  if (!files.results.empty()) {
    auto text = base::to_json_lines(run);
    if (files.results.ends_with(".gz")) text = base::gzip(text);
    results = base::write_file_atomically(files.results, text);
  }
  Result<void> junit;
  if (!files.junit.empty()) junit = base::write_file_atomically(files.junit, to_junit(run));
  return results ? junit : results;
}

}  // namespace crosscheck::runner
