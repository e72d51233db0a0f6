#include "crosscheck/relay/allowlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace crosscheck::relay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view k_example = R"(L1:
  - org1/repo1
L2:
  - org3/repo3
L3:                       # grouped by device
  device1:
    org41/device1-repo: [oncall1, oncall2]
  device2:
    org42/repo: {oncalls: [a], events: [nightly], branches: [main, 'release/*'], paths: ['aten/**']}
L4:
  - org5/repo5: oncall1, oncall2
)";

const Backend& backend(const Allowlist& list, std::string_view repo) {
  const Backend* found = list.find(base::RepoName::parse(repo).value());
  if (found == nullptr) throw std::out_of_range{std::string{repo}};
  return *found;
}

TEST(Allowlist, ReadsTheWholeGrammar) {
  const auto list = parse_allowlist(k_example, "a.yaml");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->backends().size(), 5U);
  EXPECT_EQ(backend(*list, "org1/repo1").level, Level::L1);
  EXPECT_EQ(backend(*list, "ORG3/Repo3").level, Level::L2);
  const Backend& l3 = backend(*list, "org41/device1-repo");
  EXPECT_EQ(l3.level, Level::L3);
  EXPECT_EQ(l3.device, "device1");
  EXPECT_THAT(l3.oncalls, ElementsAre("oncall1", "oncall2"));
  EXPECT_TRUE(l3.pull_requests);
  EXPECT_TRUE(l3.nightly);
  const Backend& full = backend(*list, "org42/repo");
  EXPECT_FALSE(full.pull_requests);
  EXPECT_TRUE(full.nightly);
  EXPECT_THAT(full.branches.list(), ElementsAre("main", "release/*"));
  EXPECT_THAT(full.paths.list(), ElementsAre("aten/**"));
  EXPECT_THAT(backend(*list, "org5/repo5").oncalls, ElementsAre("oncall1", "oncall2"));
}

TEST(Allowlist, WhatIsEmptyListsNobody) {
  for (const std::string_view text : {"", "# nobody\n", "L1:\n", "L1: []\nL3: {}\n"}) {
    const auto list = parse_allowlist(text, "a.yaml");
    ASSERT_TRUE(list) << text << ": " << list.error().message;
    EXPECT_TRUE(list->backends().empty()) << text;
  }
}

TEST(Allowlist, LenientWhereTodaysRelayIs) {
  const auto list =
      parse_allowlist("L1:\n  - /org/repo/\nL3:\n  npu:\n    org/other: alice, bob\n", "a");
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(backend(*list, "org/repo").repo.full_name(), "org/repo");
  EXPECT_THAT(backend(*list, "org/other").oncalls, ElementsAre("alice", "bob"));
}

struct Wrong {
  std::string_view text;
  std::string_view place;  // after "a.yaml:"
  std::string_view says;
};

TEST(Allowlist, NamesLevelEntryAndPlaceOfWhatIsWrong) {
  for (const auto& [text, place, says] : {
           Wrong{"L5:\n  - a/b\n", "1:1: ", "unknown level 'L5'"},
           Wrong{"l2:\n  - a/b\n", "1:1: ", "did you mean 'L2'?"},
           Wrong{"- a/b\n", "1:1: ", "expected a mapping of levels, found a list"},
           Wrong{"L1: a/b\n", "1:5: ", "L1: expected a list of repositories, found 'a/b'"},
           Wrong{"L1:\n  a/b: c\n",
                 "2:3: ", "L1: expected a list of repositories, found a mapping"},
           Wrong{"L1:\n  - repo\n", "2:5: ", "L1: 'repo' is not a repository"},
           Wrong{"L2:\n  - a/b/c\n", "2:5: ", "'a/b/c' is not a repository"},
           Wrong{"L2:\n  - 'a/b c'\n", "2:5: ", "is not a repository"},
           Wrong{"L2:\n  - [a/b]\n", "2:5: ", "L2: expected `owner/repo`"},
           Wrong{"L4:\n  - a/b: x\n    c/d: y\n", "2:5: ", "a mapping of 2 keys"},
           Wrong{"L4:\n  - a/b:\n", "2:9: ", "L4: 'a/b': on-calls: expected a list, found nothing"},
           Wrong{"L4:\n  - a/b: x,,y\n", "2:10: ", "an empty name"},
           Wrong{"L4:\n  - a/b: [x, [y]]\n", "2:14: ", "expected a name"},
           Wrong{"L3:\n  - a/b\n", "2:3: ", "L3: expected a mapping of device to repositories"},
           Wrong{"L3:\n  npu: [a/b]\n",
                 "2:8: ", "L3, device 'npu': expected a mapping of repository"},
           Wrong{"L3:\n  npu:\n    a/b:\n", "3:9: ", "L3, device 'npu': 'a/b': on-calls"},
           Wrong{"L3:\n  '': {a/b: [x]}\n", "2:3: ", "L3: a device needs a name"},
           Wrong{"L3:\n  n/u: {a/b: [x]}\n", "2:3: ", "'n/u' is not a device name"},
           Wrong{"L1:\n  - a/b\nL2:\n  - A/B\n",
                 "4:5: ", "'A/B' stands in the list twice (first in line 2, L1)"},
           Wrong{"L1: [a/b]\nL1: [c/d]\n", "2:1: ", "the key 'L1' stands twice (first in line 1)"},
           Wrong{"L2:\n  - a/b: {oncall: [x]}\n", "2:11: ", "did you mean 'oncalls'?"},
           Wrong{"L2:\n  - a/b: {events: []}\n", "2:19: ", "takes part in nothing"},
           Wrong{"L2:\n  - a/b: {events: [push]}\n", "2:20: ", "unknown event 'push'"},
           Wrong{"L2:\n  - a/b: {events: [nightli]}\n", "2:20: ", "did you mean 'nightly'?"},
           Wrong{"L2:\n  - a/b: {branches: []}\n", "2:21: ", "lets nothing pass"},
           Wrong{"L2:\n  - a/b: {paths: ['!']}\n", "2:18: ", "is not a pattern"},
           Wrong{"L1: [a/b\n", "2:1: ", "not YAML"},
       }) {
    const auto list = parse_allowlist(text, "a.yaml");
    ASSERT_FALSE(list) << text;
    EXPECT_EQ(list.error().fault, base::Fault::invalid_input) << text;
    EXPECT_THAT(list.error().message, StartsWith("a.yaml:" + std::string{place})) << text;
    EXPECT_THAT(base::to_string(list.error()), HasSubstr(std::string{says})) << text;
  }
}

TEST(Allowlist, TooLargeIsRefusedBeforeItIsRead) {
  const auto list = parse_allowlist(std::string(k_allowlist_limit + 1, '#'), "a.yaml");
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().fault, base::Fault::too_large);
}

TEST(GlobMatch, Table) {
  struct Case {
    std::string_view pattern;
    std::string_view name;
    bool matches;
  };
  for (const auto& [pattern, name, matches] : {
           Case{"main", "main", true},
           Case{"main", "main2", false},
           Case{"*", "main", true},
           Case{"*", "gh/me/1", false},
           Case{"gh/*", "gh/me", true},
           Case{"gh/*", "gh/me/1/head", false},
           Case{"gh/**", "gh/me/1/head", true},
           Case{"**", "a/b/c", true},
           Case{"**", "", true},
           Case{"**/x.py", "x.py", true},
           Case{"**/x.py", "a/b/x.py", true},
           Case{"**/x.py", "a/bx.py", false},
           Case{"a/**/x.py", "a/x.py", true},
           Case{"a/**/x.py", "a/b/c/x.py", true},
           Case{"*.cpp", "a.cpp", true},
           Case{"*.cpp", "a/b.cpp", false},
           Case{"aten/**", "aten/src/x.cpp", true},
           Case{"aten/**", "atenx", false},
           Case{"v?.0", "v1.0", true},
           Case{"v?.0", "v/.0", false},
           Case{"", "", true},
           Case{"", "a", false},
       })
    EXPECT_EQ(glob_match(pattern, name), matches) << pattern << " against " << name;
}

TEST(GlobMatch, StarsDoNotMakeItSlow) {
  std::string pattern;
  for (int i = 0; i < 80; ++i) pattern += "a*";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(2000, 'a')));
}

// A name is matched by any pattern made from it by putting stars in place of pieces.
TEST(GlobMatch, AStarStandsForWhatItReplaced) {
  std::mt19937 random{1};
  const std::string alphabet = "ab/.";
  for (int round = 0; round < 2000; ++round) {
    std::string name;
    std::string pattern;
    for (std::size_t i = 0, n = random() % 12; i < n; ++i) {
      const char c = alphabet[random() % alphabet.size()];
      name += c;
      switch (random() % 4) {
        case 0:
          pattern += c == '/' ? "/" : "?";
          break;
        case 1:
          pattern += c == '/' ? "/" : "*";
          break;
        default:
          pattern += c;
      }
    }
    EXPECT_TRUE(glob_match(pattern, name)) << pattern << " against " << name;
  }
}

TEST(Patterns, TheLastMatchDecides) {
  EXPECT_TRUE(Patterns{}.pass("anything"));
  const Patterns without_stacks{{"!gh/**"}};
  EXPECT_TRUE(without_stacks.pass("main"));
  EXPECT_FALSE(without_stacks.pass("gh/me/1/head"));
  const Patterns releases{{"release/**", "!release/old", "release/old"}};
  EXPECT_TRUE(releases.pass("release/old"));
  EXPECT_FALSE(releases.pass("main"));
  EXPECT_FALSE((Patterns{{"**", "!docs/**"}}.pass("docs/a.md")));
}

}  // namespace
}  // namespace crosscheck::relay
