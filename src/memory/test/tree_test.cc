#include "crosscheck/memory/tree.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

namespace crosscheck::memory {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> paths(const Walked& walked) {
  std::vector<std::string> all;
  for (const TreeFile& file : walked.files) all.push_back(file.path);
  return all;
}
std::vector<std::string> problems(const std::vector<Problem>& found) {
  std::vector<std::string> all;
  for (const Problem& problem : found) all.push_back(problem.path + ": " + problem.what);
  return all;
}

TEST(Walk, FindsPythonFilesInOrder) {
  const Folder folder;
  for (const char* name :
       {"b.py", "a/z.py", "a/b/c.py", "a.txt", ".hidden/x.py", "__pycache__/y.py"})
    folder.write(name, "x = 1\n");
  const auto walked = walk(folder.path());
  ASSERT_TRUE(walked);
  EXPECT_THAT(paths(*walked), ElementsAre("a/b/c.py", "a/z.py", "b.py"));
  EXPECT_THAT(walked->problems, ElementsAre());
}

TEST(Walk, LinkLoopsAreNamedAndSharedFoldersReadOnce) {
  const Folder folder;
  folder.write("real/x.py", "x = 1\n");
  fs::create_directory_symlink("..", folder / "real/up");
  fs::create_directory_symlink("real", folder / "alias");
  fs::create_symlink("real/x.py", folder / "link.py");
  fs::create_symlink("self.py", folder / "self.py");
  fs::create_symlink("nowhere.py", folder / "gone.py");
  const Folder outside;
  outside.write("y.py", "y = 1\n");
  fs::create_directory_symlink(outside.path(), folder / "outside");
  const auto walked = walk(folder.path());
  ASSERT_TRUE(walked);
  EXPECT_THAT(paths(*walked), ElementsAre("link.py", "outside/y.py", "real/x.py"));
  EXPECT_THAT(problems(walked->problems),
              ElementsAre(HasSubstr("gone.py: a link that leads nowhere"),
                          HasSubstr("real/up: a link to a folder that it lies in"),
                          HasSubstr("self.py: a link that leads nowhere")));
}

TEST(Walk, TooLargeAndIrregularFilesAreNamed) {
  const Folder folder;
  folder.write("ok.py", "x = 1\n");
  folder.write("big.py", "x = 1\n");
  fs::resize_file(folder / "big.py", std::uintmax_t{50} << 20);
  ASSERT_EQ(::mkfifo((folder / "pipe.py").c_str(), 0600), 0);
  folder.write(std::string{"bad\xff.py"}, "x = 1\n");
  const auto walked = walk(folder.path());
  ASSERT_TRUE(walked);
  EXPECT_THAT(paths(*walked), ElementsAre("ok.py"));
  EXPECT_THAT(problems(walked->problems),
              ElementsAre(HasSubstr("name is not UTF-8"), HasSubstr("big.py: is larger (50 MB)"),
                          "pipe.py: is no regular file"));
}

TEST(Walk, ARootThatIsNoFolderIsAnError) {
  const Folder folder;
  folder.write("x.py", "");
  EXPECT_EQ(walk(folder / "none").error().fault, base::Fault::not_found);
  EXPECT_EQ(walk(folder / "x.py").error().fault, base::Fault::invalid_input);
}

TEST(ReadTree, GivesSourcesInOrderWithManyThreads) {
  const Folder folder;
  for (int i = 0; i < 200; ++i)
    folder.write("f" + std::to_string(1000 + i) + ".py",
                 "def test_" + std::to_string(i) + "(): pass\n");
  const auto walked = walk(folder.path());
  std::vector<Problem> found;
  std::size_t next = 0;
  const auto read =
      read_tree(folder.path(), walked->files, {.jobs = 4}, found,
                [&](std::size_t index, Source source) -> base::Result<void> {
                  EXPECT_EQ(index, next++);
                  EXPECT_EQ(source.path, walked->files[index].path);
                  EXPECT_EQ(source.facts.definitions.at(0).name, "test_" + std::to_string(index));
                  return {};
                });
  EXPECT_TRUE(read);
  EXPECT_EQ(next, 200U);
}

TEST(ReadTree, AFileThatIsGoneIsAProblemAndAnErrorOfTheTakerEndsIt) {
  const Folder folder;
  for (int i = 0; i < 100; ++i) folder.write("f" + std::to_string(100 + i) + ".py", "");
  auto walked = walk(folder.path());
  fs::remove(folder / "f150.py");
  std::vector<Problem> found;
  std::size_t taken = 0;
  ASSERT_TRUE(read_tree(
      folder.path(), walked->files, {.jobs = 2}, found,
      [&](std::size_t, Source) -> base::Result<void> { return ++taken, base::Result<void>{}; }));
  EXPECT_EQ(taken, 99U);
  EXPECT_THAT(problems(found), ElementsAre(HasSubstr("f150.py")));
  const auto stopped = read_tree(folder.path(), walked->files, {.jobs = 2}, found,
                                 [&](std::size_t, Source) -> base::Result<void> {
                                   return base::fail(base::Fault::full, "no space");
                                 });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().fault, base::Fault::full);
}

TEST(ReadSource, OtherEncodingsAreSaidAndRead) {
  const Source latin =
      test::source_of("l.py", "# -*- coding: latin-1 -*-\n# caf\xe9\ndef test_a(): pass\n");
  EXPECT_EQ(latin.facts.problem, "not UTF-8 (it says latin-1)");
  EXPECT_EQ(latin.facts.definitions.at(0).name, "test_a");
  const Source wide = test::source_of("w.py", std::string_view("\xff\xfe"
                                                               "d\0e\0f\0",
                                                               8));
  EXPECT_THAT(wide.facts.problem, HasSubstr("not UTF-8"));
}

}  // namespace
}  // namespace crosscheck::memory
