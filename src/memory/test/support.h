#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "crosscheck/base/file.h"
#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/memory/extract.h"
#include "crosscheck/memory/tree.h"

namespace crosscheck::memory::test {

namespace fs = std::filesystem;

class Folder : public base::TemporaryFolder {
 public:
  void write(const std::string& name, std::string_view text) const {
    fs::create_directories((*this / name).parent_path());
    ASSERT_TRUE(base::write_file_atomically(*this / name, text));
  }
};

inline Facts facts_of(std::string_view text) {
  auto extractor = Extractor::make();
  EXPECT_TRUE(extractor) << extractor.error().message;
  auto facts = extractor->extract(text);
  EXPECT_TRUE(facts) << facts.error().message;
  return *std::move(facts);
}

inline Source source_of(std::string path, std::string_view text) {
  auto extractor = Extractor::make();
  EXPECT_TRUE(extractor) << extractor.error().message;
  return read_source(*extractor, std::move(path), text);
}

// The only definition of this qualified name.
inline const Definition& find(const Facts& facts, std::string_view name) {
  const Definition* found = nullptr;
  for (const Definition& definition : facts.definitions)
    if (qualified_name(definition) == name) {
      EXPECT_EQ(found, nullptr) << name << " stands twice";
      found = &definition;
    }
  if (found == nullptr) throw std::runtime_error{"there is no " + std::string{name}};
  return *found;
}

}  // namespace crosscheck::memory::test
