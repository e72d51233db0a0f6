#include "crosscheck/profile/detect.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "crosscheck/base/file.h"
#include "crosscheck/base/temporary_folder.h"

namespace crosscheck::profile {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream{path} << text;
}

// "point file:line", for each piece of evidence.
std::vector<std::string> places(const Detected& found) {
  std::vector<std::string> all;
  for (const FoundPoint& point : found.points) {
    if (point.evidence.empty()) all.push_back(point.point + " implied");
    for (const Evidence& one : point.evidence)
      all.push_back(point.point + " " + one.file + ":" + std::to_string(one.line));
  }
  return all;
}

std::vector<std::string> in_text(const std::string& source, Language language) {
  base::TemporaryFolder folder;
  write(folder / (language == Language::cpp ? "a.cc" : "a.py"), source);
  const auto found = detect(folder.path(), built_in_points());
  return found ? places(*found) : std::vector<std::string>{to_string(found.error())};
}

TEST(Detect, SeesTheReferenceDeviceAsItIs) {
  const fs::path root{CROSSCHECK_SOURCE_DIR};
  const auto found = detect(root / "examples/reference_device", built_in_points());
  ASSERT_TRUE(found) << to_string(found.error());
  // Lines move with every change of the device; each is compared with the file instead.
  std::string seen;
  for (const FoundPoint& point : found->points) {
    std::map<std::string, int> files;
    for (const Evidence& one : point.evidence) {
      ++files[one.file];
      std::ifstream file{root / "examples/reference_device" / one.file};
      std::string line;
      for (int i = 0; i < one.line; ++i) std::getline(file, line);
      EXPECT_THAT(line, HasSubstr(one.text)) << one.file << ":" << one.line;
    }
    seen += point.point + ":";
    for (const auto& [file, count] : files) seen += " " + file + " " + std::to_string(count);
    seen += files.empty() ? " implied\n" : "\n";
  }
  const auto golden = base::read_file(root / "src/profile/test/golden/reference_device.txt");
  ASSERT_TRUE(golden) << to_string(golden.error());
  EXPECT_EQ(seen, *golden);
  EXPECT_EQ(found->device, "refdev");
  EXPECT_THAT(found->sources, ElementsAre("python", "src"));
  EXPECT_THAT(found->documents, ElementsAre("README.md"));
  EXPECT_THAT(found->skipped, IsEmpty());
}

TEST(Detect, DoesNotTakeCommentsStringsAndDeadCodeForUse) {
  EXPECT_THAT(in_text("// TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)\n"
                      "//C10_REGISTER_GUARD_IMPL(PrivateUse1, G);\n"
                      "/* registerPrivateUse1Methods(&m); */\n"
                      "const char* s = \"REGISTER_ALLOCATOR(PrivateUse1, a)\";\n"
                      "#if 0\nREGISTER_PRIVATEUSE1_SERIALIZATION(a, b)\n#endif\n"
                      "#define REGISTER_PRIVATEUSE1_HOOKS(x)\n",
                      Language::cpp),
              IsEmpty());
  EXPECT_THAT(in_text("# torch.utils.rename_privateuse1_backend('x')\n"
                      "'''torch._register_device_module('x', m)'''\n",
                      Language::python),
              IsEmpty());
}

TEST(Detect, TellsRegistrationsOfOneNameApart) {
  EXPECT_THAT(in_text("import torch.distributed as dist\ndist.Backend.register_backend('x', f)\n",
                      Language::python),
              ElementsAre("distributed a.py:2"));
  EXPECT_THAT(in_text("from torch._dynamo import register_backend\n@register_backend\ndef f(): 0\n",
                      Language::python),
              ElementsAre("compile a.py:2"));
  EXPECT_THAT(in_text("from mine import register_backend\nregister_backend(f)\n", Language::python),
              IsEmpty());
  EXPECT_THAT(
      in_text("TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {}\nTORCH_LIBRARY_IMPL(aten, CPU, m) {}",
              Language::cpp),
      ElementsAre("backend_fallback a.cc:1"));
  EXPECT_THAT(
      in_text("TORCH_LIBRARY_IMPL(\n    aten,\n    AutogradPrivateUse1,\n    m) {}", Language::cpp),
      ElementsAre("autograd a.cc:1"));
  EXPECT_THAT(
      in_text("rest = torch.library.Library('_', 'IMPL')\n"
              "rest.fallback(f, dispatch_key='PrivateUse1')\n"
              "aten = torch.library.Library('aten', 'IMPL')\n"
              "aten.impl('add.out', g, dispatch_key='PrivateUse1')\n"
              "aten.impl('add.out', g, dispatch_key='CPU')\n",
              Language::python),
      ElementsAre("dispatcher_kernels a.py:4", "backend_fallback a.py:2", "autograd implied"));
  EXPECT_THAT(
      in_text("lib = torch.library.Library('aten', 'IMPL', 'PrivateUse1')\n", Language::python),
      ElementsAre("dispatcher_kernels a.py:1", "autograd implied"));
}

TEST(Detect, FindsWhatTheDeviceIsCalled) {
  base::TemporaryFolder folder;
  write(folder / "pkg/names.py", "X = 1\n");
  write(folder / "pkg/init.py", "NAME = \"npu\"\ntorch.utils.rename_privateuse1_backend(NAME)\n");
  const auto found = detect(folder.path(), built_in_points());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->device, "npu");
  ASSERT_TRUE(found->device_at);
  EXPECT_EQ(found->device_at->file + ":" + std::to_string(found->device_at->line), "pkg/init.py:2");
  EXPECT_THAT(found->sources, ElementsAre("pkg"));
}

TEST(Detect, PassesOverWhatCannotBeReadNamesItAndGoesOn) {
  base::TemporaryFolder folder;
  write(folder / "a.cc", "REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &a)\n");
  write(folder / "latin.cc", "// \xE9\nREGISTER_PRIVATEUSE1_HOOKS(H)\n");
  write(folder / "utf16.py", std::string("\xFF\xFE"
                                         "x\0=\0",
                                         6));
  write(folder / "large.cc", std::string(k_source_limit + 1, ' '));
  write(folder / "tests/b.cc", "registerPrivateUse1Methods(&m);\n");
  write(folder / "third_party/c.cc", "registerPrivateUse1Methods(&m);\n");
  write(folder / ".hidden/d.cc", "registerPrivateUse1Methods(&m);\n");
  write(folder / "test_e.py", "torch._register_device_module('x', m)\n");
  fs::create_directory_symlink(".", folder / "loop");
  fs::create_symlink("nowhere.cc", folder / "broken.cc");
  ::mkfifo((folder / "pipe.cc").c_str(), 0600);
  if (::getuid() != 0) {
    write(folder / "secret.cc", "x");
    fs::permissions(folder / "secret.cc", fs::perms::none);
  }
  const auto found = detect(folder.path(), built_in_points());
  ASSERT_TRUE(found);
  EXPECT_THAT(places(*found), ElementsAre("hooks latin.cc:2", "allocator a.cc:1"));
  EXPECT_EQ(found->files, 2U);
  std::vector<std::string> skipped;
  for (const Skipped& one : found->skipped)
    if (one.path != "secret.cc") skipped.push_back(one.path + ": " + one.why);
  EXPECT_THAT(skipped,
              ElementsAre("broken.cc: a link that leads nowhere", "large.cc: larger than 4 MiB",
                          "loop: a link to a folder", "pipe.cc: not a regular file",
                          "utf16.py: not in an encoding that extends ASCII (UTF-16?)"));
  EXPECT_EQ(found->skipped.size(), ::getuid() == 0 ? 5U : 6U);
  EXPECT_FALSE(detect(folder / "none", built_in_points()));
}

TEST(Points, AreAllDocumented) {
  const auto text = base::read_file(fs::path{CROSSCHECK_SOURCE_DIR} / "docs/profile.md");
  ASSERT_TRUE(text) << to_string(text.error());
  for (const auto name : built_in_points().names())
    EXPECT_THAT(*text, HasSubstr("| `" + std::string{name} + "` | "));
  for (const auto& [name, says] : built_in_points().areas)
    EXPECT_THAT(*text, HasSubstr("| `" + name + "` | " + says + " |"));
}

TEST(Points, AreAddedToAndCheckedWithPlaces) {
  auto more = add_points(built_in_points(),
                         "points:\n  mine: {says: is mine, found_by: [{in: cpp, call: MINE}]}\n"
                         "  hooks: {found_by: [{in: cpp, call: a.OURS, with: [x|y]}]}\n",
                         "more.yaml");
  ASSERT_TRUE(more) << to_string(more.error());
  Detected found;
  for (const Point& point : more->points) found.points.push_back({point.name, point.says, {}, {}});
  detect_in(found, *more, "MINE();\nb::OURS(y);\na::b::OURS(z);\na::b::OURS(y);", Language::cpp,
            "f.cc");
  std::erase_if(found.points, [](const FoundPoint& point) { return point.evidence.empty(); });
  EXPECT_THAT(places(found), ElementsAre("hooks f.cc:4", "mine f.cc:1"));

  const auto refused = [](const std::string& text) {
    const auto result = add_points({}, text, "p.yaml");
    return result ? std::string{} : to_string(result.error());
  };
  EXPECT_THAT(refused("point: {}"), HasSubstr("p.yaml:1:1: unknown key 'point'"));
  EXPECT_THAT(refused("points: {a: {says: b, found_by: [{call: c}]}}"),
              HasSubstr("`in` is missing"));
  EXPECT_THAT(refused("points: {a: {says: b, found_by: [{in: cpp, calls: c}]}}"),
              HasSubstr("did you mean 'call'?"));
  EXPECT_THAT(refused("points: {a: {says: b, implied_by: c, because: d}}"),
              HasSubstr("there is no point 'c'"));
  EXPECT_THAT(refused("points: {a: {found_by: []}}"), HasSubstr("`says` is missing"));
}

}  // namespace
}  // namespace crosscheck::profile
