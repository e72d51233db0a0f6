#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "crosscheck/config/load.h"
#include "support.h"

namespace crosscheck::config {
namespace {

// Torch-Spyre's own files: what is refused of them is listed, by path and reason, and all else
// loads.
TEST(RealConfigurations, LoadOrAreRefusedForTheReasonsListed) {
  std::filesystem::path root;
  const auto files = real_configurations(root);
  if (files.empty()) GTEST_SKIP() << "no configurations at " << root;
  std::string said;
  std::size_t names = 0;
  for (const auto& path : files) {
    const Loaded loaded =
        load(path.string(), [](const std::string& name) { return base::read_file(name); });
    for (const std::string& finding : brief(loaded.findings))
      said += std::filesystem::relative(path, root).string() + ": " + finding + "\n";
    ASSERT_TRUE(loaded.config) << path;
    EXPECT_EQ(loaded.ok(), loaded.findings.empty());
    for (const FileEntry& file : loaded.config->files)
      for (const Entry& entry : file.entries) names += entry.names.size();
  }
  EXPECT_EQ(said,
            *base::read_file(CROSSCHECK_SOURCE_DIR "/src/config/test/golden/torch_spyre.txt"));
  EXPECT_EQ(files.size(), 187U);
  EXPECT_EQ(names, 3463U);
}

}  // namespace
}  // namespace crosscheck::config
