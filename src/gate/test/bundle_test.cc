#include "crosscheck/gate/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crosscheck/base/file.h"
#include "crosscheck/base/temporary_folder.h"

namespace crosscheck::gate {
namespace {

using ::testing::HasSubstr;

std::string bundle_of(const base::TemporaryFolder& folder) {
  std::filesystem::create_directories(folder.path() / "launches");
  std::filesystem::create_directories(folder.path() / "checkpoints");
  for (const auto& [name, text] : BundleFiles{{"frozen.json", "{}"},
                                              {"launches/000000.json", R"({"a":1})"},
                                              {"launches/000001.json", std::string(512, 'x')},
                                              {"checkpoints/large.json", "no"}}) {
    EXPECT_TRUE(base::write_file_atomically(folder.path() / name, text));
  }
  auto files = records_of(folder.path());
  EXPECT_TRUE(files);
  files->emplace("report.json", "{}");
  return make_bundle(std::move(*files));
}

TEST(Bundle, HoldsTheRecordsAndNothingElse) {
  const base::TemporaryFolder folder;
  const auto bytes = bundle_of(folder);
  const auto files = open_bundle(bytes, "b.tar");
  ASSERT_TRUE(files) << base::to_string(files.error());
  EXPECT_THAT(*files, ::testing::UnorderedElementsAre(
                          ::testing::Key("frozen.json"), ::testing::Key("launches/000000.json"),
                          ::testing::Key("launches/000001.json"), ::testing::Key("report.json")));
  EXPECT_EQ(make_bundle(*files), bytes);
}

TEST(Bundle, ChangeOfAnySingleByteShows) {
  const base::TemporaryFolder folder;
  const auto bytes = bundle_of(folder);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto tampered = bytes;
    tampered[i] = static_cast<char>(tampered[i] ^ 1);
    EXPECT_FALSE(open_bundle(tampered, "b.tar")) << "byte " << i;
  }
}

TEST(Bundle, CutAnywhereOrLengthenedIsRefused) {
  const base::TemporaryFolder folder;
  const auto bytes = bundle_of(folder);
  for (std::size_t i = 0; i < bytes.size(); i += 7) {
    EXPECT_FALSE(open_bundle(std::string_view{bytes}.substr(0, i), "b.tar")) << i;
  }
  const auto longer = open_bundle(bytes + std::string(512, '\0'), "b.tar");
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message, HasSubstr("bytes around its files"));
}

}  // namespace
}  // namespace crosscheck::gate
