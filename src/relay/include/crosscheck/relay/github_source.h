#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "crosscheck/github/file.h"
#include "crosscheck/relay/text_source.h"

namespace crosscheck::relay {

// A file on GitHub of at most `limit` bytes, asked for with its last ETag. `name` is the address as
// it was given. Reading waits for GitHub.
[[nodiscard]] std::unique_ptr<TextSource> github_source(std::string name,
                                                        github::FileAddress address,
                                                        github::FileReader reader,
                                                        std::size_t limit);

}  // namespace crosscheck::relay
