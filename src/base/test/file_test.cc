#include "crosscheck/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "crosscheck/base/temporary_folder.h"

namespace crosscheck::base {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator{folder}, fs::directory_iterator{}));
}

TEST(File, RoundTrip) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  for (const std::string& bytes :
       {std::string{}, std::string("\0\xff", 2), std::string(200'000, 'x')}) {
    ASSERT_TRUE(write_file_atomically(path, bytes));
    EXPECT_EQ(read_file(path).value(), bytes);
  }
  EXPECT_EQ(entries(folder.path()), 1U);  // nothing is left beside it
}

TEST(File, ModeIsExactWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0077);
  const auto written = write_file_atomically(folder.path() / "shared", "x", 0644);
  const auto secret = write_file_atomically(folder.path() / "secret", "x", 0600);
  ::umask(before);
  ASSERT_TRUE(written);
  ASSERT_TRUE(secret);
  struct stat status{};
  ASSERT_EQ(::stat((folder.path() / "shared").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0644U);
  ASSERT_EQ(::stat((folder.path() / "secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST(File, LimitIsInclusive) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  ASSERT_TRUE(write_file_atomically(path, "12345"));
  EXPECT_TRUE(read_file(path, 5));
  const auto over = read_file(path, 4);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().fault, Fault::too_large);
  EXPECT_THAT(over.error().message, HasSubstr(path.string()));
  // Of a size nobody knows before.
  EXPECT_EQ(read_file("/dev/zero", 100'000).error().fault, Fault::too_large);
}

TEST(File, ErrorsNameThePathAndTheReason) {
  const TemporaryFolder folder;
  const fs::path absent = folder.path() / "none" / "a";
  const auto missing = read_file(absent);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().fault, Fault::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr(absent.string() + ": No such file"));
  EXPECT_EQ(read_file(folder.path()).error().fault, Fault::invalid_input);
  const auto unwritten = write_file_atomically(absent, "x");
  ASSERT_FALSE(unwritten);
  EXPECT_THAT(unwritten.error().message, HasSubstr(absent.string()));
}

TEST(File, FailedWriteLeavesTheOldBytesAndNothingBeside) {
  const TemporaryFolder folder;
  const fs::path in_the_way = folder.path() / "a";
  fs::create_directory(in_the_way);
  EXPECT_FALSE(write_file_atomically(in_the_way, "x"));
  EXPECT_TRUE(fs::is_directory(in_the_way));
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(File, WhatIsNoRegularFileIsWrittenToAndStays) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string seen;
  std::thread reader{[&] { seen = read_file(pipe).value(); }};
  EXPECT_TRUE(write_file_atomically(pipe, "through"));
  reader.join();
  EXPECT_EQ(seen, "through");
  EXPECT_TRUE(fs::is_fifo(pipe));
  const fs::path link = folder.path() / "link";
  fs::create_symlink("/dev/null", link);
  EXPECT_TRUE(write_file_atomically(link, "x"));
  EXPECT_TRUE(write_file_atomically("/dev/null", "x"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(entries(folder.path()), 2U);
}

TEST(File, AReaderSeesOldOrNewNeverHalf) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  const std::string one(100'000, '1');
  const std::string two(150'000, '2');
  ASSERT_TRUE(write_file_atomically(path, one));
  std::atomic<bool> done = false;
  std::thread writer{[&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(write_file_atomically(path, i % 2 == 0 ? two : one));
    }
    done = true;
  }};
  while (!done) {
    const std::string seen = read_file(path).value();
    EXPECT_TRUE(seen == one || seen == two) << seen.size();
  }
  writer.join();
}

}  // namespace
}  // namespace crosscheck::base
