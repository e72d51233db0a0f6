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

// The records of a matrix's folder. Scratch files and checkpoints stay out.
[[nodiscard]] base::Result<BundleFiles> records_of(const std::filesystem::path& folder);

// `files` as a bundle.
[[nodiscard]] std::string make_bundle(BundleFiles files);

// What a bundle holds, without `digests.json`. `invalid_input` names what was changed: a file whose
// digest is another's, one that is missing or too much, bytes around the files.
[[nodiscard]] base::Result<BundleFiles> open_bundle(std::string_view bytes,
                                                    const std::string& source);

}  // namespace crosscheck::gate
