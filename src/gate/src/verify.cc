#include "crosscheck/gate/verify.h"

#include <fmt/format.h>

#include <filesystem>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/gate/environment.h"
#include "crosscheck/gate/matrix.h"
#include "crosscheck/gate/report.h"

namespace crosscheck::gate {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Fault;

class Scratch {
 public:
  Scratch() : path_{fs::temp_directory_path() / ("crosscheck-verify-" + base::random_hex(8))} {}
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

base::Result<std::string> part(const BundleFiles& files, const std::string& name,
                               const std::string& source) {
  const auto found = files.find(name);
  if (found == files.end()) {
    return fail(Fault::invalid_input, fmt::format("{}: it holds no {}", source, name));
  }
  return found->second;
}

}  // namespace

base::Result<Judgement> judge_files(const BundleFiles& files, const std::string& source,
                                    base::Time at) {
  const auto text = part(files, "manifest.yaml", source);
  if (!text) return tl::unexpected(text.error());
  const auto frozen = part(files, "frozen.json", source);
  if (!frozen) return tl::unexpected(frozen.error());
  const auto fixed = base::parse_json(*frozen, source + ": frozen.json");
  if (!fixed) return tl::unexpected(fixed.error());
  auto manifest = parse_manifest(*text, source + ": manifest.yaml");
  if (!manifest) return tl::unexpected(manifest.error());
  adopt_locks(*manifest, *fixed);
  const Scratch folder;
  for (const auto& [name, content] : files) {
    std::error_code error;
    fs::create_directories((folder.path() / name).parent_path(), error);
    if (auto done = base::write_file_atomically(folder.path() / name, content); !done) {
      return tl::unexpected(done.error());
    }
  }
  const auto matrix = Matrix::open(folder.path(), *manifest);
  if (!matrix) return tl::unexpected(matrix.error());
  const auto results = judge(*manifest, *matrix);
  const auto outcome = decide(*manifest, results, at);
  return Judgement{report_json({*manifest, *matrix, results, outcome}), outcome.decision,
                   base::sha256_hex(base::canonical_json(*fixed))};
}

base::Result<Judgement> verify(const BundleFiles& files, const std::string& source) {
  const auto report = part(files, "report.json", source);
  if (!report) return tl::unexpected(report.error());
  const auto said = base::parse_json(*report, source + ": report.json");
  if (!said) return tl::unexpected(said.error());
  const auto at = base::require_string(*said, "decided_at");
  const auto decision = base::require_string(*said, "decision");
  if (!at) return tl::unexpected(at.error());
  if (!decision) return tl::unexpected(decision.error());
  const auto then = base::parse_rfc3339(*at);
  if (!then) return tl::unexpected(then.error());
  auto judged = judge_files(files, source, *then);
  if (judged && *decision != to_string(judged->decision)) {
    return fail(Fault::invalid_input, fmt::format("{}: its report says {}, its launches {}", source,
                                                  *decision, to_string(judged->decision)));
  }
  return judged;
}

}  // namespace crosscheck::gate
