#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

// A matrix in one file, for another machine: a tar archive of its folder's records with the SHA-256
// of each in `digests.json`. Equal records give equal bytes, so that a change of any byte shows.
namespace crosscheck::gate {

// Path within the bundle to content.
using BundleFiles = std::map<std::string, std::string>;

// The records of a matrix's folder and `more` (a report, say) as a bundle. Scratch files and
// checkpoints stay out.
[[nodiscard]] base::Result<std::string> make_bundle(const std::filesystem::path& folder,
                                                    const BundleFiles& more);

// What a bundle holds, without `digests.json`. `invalid_input` names what was changed: a file whose
// digest is another's, one that is missing or too much, bytes around the files.
[[nodiscard]] base::Result<BundleFiles> open_bundle(std::string_view bytes,
                                                    const std::string& source);

}  // namespace crosscheck::gate
