#include "crosscheck/config/edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "crosscheck/config/format.h"
#include "crosscheck/config/write.h"
#include "support.h"

namespace crosscheck::config {
namespace {

using ::testing::HasSubstr;

// A text loaded, and edited by `change`; the error's text if that fails.
template <class Change>
std::string edited(const std::string& text, Change change) {
  const Loaded loaded = load_text(text);
  EXPECT_TRUE(loaded.ok()) << text
                           << (loaded.findings.empty() ? "" : to_string(loaded.findings[0]));
  if (!loaded.ok()) return {};
  Editor editor{*loaded.config};
  const base::Result<void> done = change(editor, *loaded.config);
  if (!done) return done.error().message;
  const auto result = editor.apply();
  return result ? *result : result.error().message;
}

std::string decided(const std::string& text, std::string_view name, const Decision& decision) {
  return edited(text, [&](Editor& editor, const Config& config) {
    return editor.decide(config.files.at(0), name, decision);
  });
}

Rationale some_rationale() {
  Rationale rationale;
  rationale.reason = Reason::unsupported_operator;
  rationale.operators = {"aten::random_.from", "yes", "odd, name"};
  rationale.text = "it says \"no\"\n\xC2\x85 and \xC3\xA4";
  rationale.evidence = {{"run", "run 2026-11-30T10:12Z#412: passed 3 of 3"}};
  rationale.decided_by = Decider::agent;
  rationale.decided_at = "2026-11-30";
  rationale.expires = "2027-01-01";
  rationale.test_sources = {"5f0c61aa29d3b8e4", "1234567890123456", "f00d"};
  return rationale;
}

// A configuration of every layout that the editor knows.
const std::string k_layouts =
    "# before\n"
    "test_suite_config:\n"
    "    labels: [a]   # labels\n"
    "    files:\n"
    "    # of x\n"
    "    - path: x.py\n"
    "      tests:\n"
    "      # first\n"
    "      -   names:  # several\n"
    "          - A::test_a   # why a\n"
    "          # between\n"
    "          - A::test_b\n"
    "          mode: skip  # the mode\n"
    "          tags: [t, u]\n"
    "\n"
    "      # second\n"
    "      - names: [A::test_c, A::test_d,\n"
    "                'A::test_e']\n"
    "      - {names: [A::test_f, A::test_g], mode: xfail, tags: [v]} # flow\n"
    "      - names: A::test_h\n"
    "        edits: {dtypes: {exclude: [{name: bool}]}}  # edits\n"
    "      # last words\n"
    "    - path: y.py\n"
    "    - {path: z.py, tests: []}\n"
    "    - {path: v.py, unlisted_test_mode: xfail}\n"
    "    - path: w.py\n"
    "      unlisted_test_mode: skip\n"
    "      tests: [{names: [t], mode: skip}, {names: [u]}]";

TEST(Edit, OneNameOfSeveralMovesWithItsCommentAndTheOtherKeys) {
  const std::string text = suite(
      "    - names:\n      - A::t   # because\n      # hm\n      - A::u\n      mode: xfail  # all\n"
      "      tags: [x] # tags\n    # next\n    - names: [B::t]\n");
  EXPECT_EQ(decided(text, "A::t", {Mode::mandatory_success, {}}),
            suite("    - names:\n      # hm\n      - A::u\n      mode: xfail  # all\n"
                  "      tags: [x] # tags\n    - names:\n        - A::t   # because\n"
                  "      mode: mandatory_success\n      tags: [x] # tags\n    # next\n"
                  "    - names: [B::t]\n"));
}

TEST(Edit, TheOnlyNameIsDecidedInPlace) {
  const std::string text = suite("    - names: [A::t]  # one\n      mode: skip  # hm\n");
  EXPECT_EQ(decided(text, "A::t", {Mode::xfail, {}}),
            suite("    - names: [A::t]  # one\n      mode: xfail  # hm\n"));
  EXPECT_EQ(decided(suite("    - names: [A::t]\n"), "A::t", {Mode::skip, {}}),
            suite("    - names: [A::t]\n      mode: skip\n"));
}

TEST(Edit, ANewNameComesLast) {
  Rationale rationale;
  rationale.reason = Reason::undecided;
  EXPECT_EQ(decided(suite("    - names: [A::t]  # one\n    # after\n"), "B::new",
                    {Mode::xfail, rationale}),
            suite("    - names: [A::t]  # one\n    - names:\n        - B::new\n      mode: xfail\n"
                  "      rationale:\n        reason: undecided\n    # after\n"));
  EXPECT_EQ(decided("test_suite_config:\n  files:\n  - path: x.py\n", "t", {Mode::skip, {}}),
            "test_suite_config:\n  files:\n  - path: x.py\n    tests:\n      - names:\n"
            "          - t\n        mode: skip\n");
}

TEST(Edit, WhatIsWrittenIntoACanonicalFileIsCanonical) {
  const std::string text =
      "test_suite_config:\n  files:\n    - path: x.py\n      tests:\n        - names: [A::t, "
      "A::u]\n";
  for (const char* name : {"A::t", "B::new"}) {
    const std::string result = decided(text, name, {Mode::xfail, some_rationale()});
    std::vector<Finding> findings;
    const auto document = Document::parse("t.yaml", result, findings);
    ASSERT_TRUE(document);
    EXPECT_EQ(result, *format(*document)) << name;
  }
}

TEST(Edit, WhatIsDecidedAlikeSharesAnEntry) {
  const std::string text = suite("    - names: [A::t, A::u, A::v]\n");
  EXPECT_EQ(edited(text,
                   [](Editor& editor, const Config& config) -> base::Result<void> {
                     for (const char* name : {"A::t", "A::v", "A::n", "A::m"})
                       if (auto done = editor.decide(config.files[0], name, {Mode::skip, {}});
                           !done)
                         return done;
                     return {};
                   }),
            suite("    - names: [A::u]\n    - names:\n        - A::t\n        - A::v\n"
                  "      mode: skip\n    - names:\n        - A::n\n        - A::m\n      mode: "
                  "skip\n"));
}

TEST(Edit, AllNamesOfAnEntryDecidedDifferently) {
  const std::string text = suite("    - names: [A::t, A::u]\n      mode: xfail\n");
  EXPECT_EQ(edited(text,
                   [](Editor& editor, const Config& config) -> base::Result<void> {
                     if (auto done = editor.decide(config.files[0], "A::t", {Mode::skip, {}});
                         !done)
                       return done;
                     return editor.decide(config.files[0], "A::u", {Mode::mandatory_success, {}});
                   }),
            suite("    - names: [A::t]\n      mode: skip\n    - names:\n        - A::u\n"
                  "      mode: mandatory_success\n"));
}

TEST(Edit, ANameRemovedTakesItsEntryAlongIfItIsTheOnlyOne) {
  const std::string text = suite(
      "    - names: [A::t, A::u]\n    # of v\n    - names:\n      - A::v\n      mode: skip\n    - "
      "names: [w]\n");
  const auto without = [&](std::string_view name) {
    return edited(text, [&](Editor& editor, const Config& config) {
      return editor.remove(config.files[0], name);
    });
  };
  EXPECT_EQ(without("A::t"), suite("    - names: [A::u]\n    # of v\n    - names:\n      - A::v\n  "
                                   "    mode: skip\n    - names: [w]\n"));
  EXPECT_EQ(without("A::v"), suite("    - names: [A::t, A::u]\n    # of v\n    - names: [w]\n"));
  EXPECT_THAT(without("A::x"), HasSubstr("'A::x' is not listed"));
}

TEST(Edit, LineBreaksAreKept) {
  std::string text;
  for (const char c : suite("    - names: [A::t]\n")) text += c == '\n' ? "\r\n" : std::string{c};
  const std::string result = decided(text, "A::t", {Mode::skip, {}});
  EXPECT_THAT(result, HasSubstr("[A::t]\r\n      mode: skip\r\n"));
}

TEST(Edit, WhatAnIncludedFileSaysIsRefused) {
  const Loaded loaded =
      load_files({{"t.yaml", "test_suite_config: {include: [o.yaml], files: []}"},
                  {"o.yaml", "test_suite_config: {files: [{path: x.py, tests: [{names: [t]}]}]}"}});
  ASSERT_TRUE(loaded.ok());
  Editor editor{*loaded.config};
  const auto done = editor.decide(loaded.config->files.at(0), "t", {Mode::skip, {}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().fault, base::Fault::conflict);
  EXPECT_THAT(done.error().message, HasSubstr("o.yaml:1:"));
}

// What every name of a configuration is decided to be.
std::map<std::string, Decision> decisions(const Config& config) {
  std::map<std::string, Decision> all;
  for (const FileEntry& file : config.files)
    for (const Entry& entry : file.entries)
      for (const Name& name : entry.names)
        all[std::string{file.path} + " " + std::string{name.text()} + " " + to_string(entry.when)] =
            {entry.mode, entry.rationale};
  return all;
}

std::vector<std::string> comments(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    for (std::size_t hash = 0; hash < line.size(); ++hash) {
      if (line[hash] != '#' || (hash > 0 && line[hash - 1] != ' ')) continue;
      all.push_back(line.substr(hash));
      break;
    }
    at = end + 1;
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Applies `change` to what `text` loads as, which must then load as well.
template <class Change>
std::string must_edit(const std::string& text, Change change) {
  const Loaded loaded = load_text(text);
  if (!loaded.ok()) {
    ADD_FAILURE() << to_string(loaded.findings.at(0)) << "\n" << text;
    return {};
  }
  Editor editor{*loaded.config};
  const base::Result<void> done = change(editor, *loaded.config);
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  auto result = editor.apply();
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result.value_or("");
}

// Every edit, and then what undoes it, gives the same bytes: of every entry of the text, at most
// `most` of each kind.
void expect_reversible(const std::string& text, std::size_t most) {
  const Loaded loaded = load_text(text);
  ASSERT_TRUE(loaded.ok()) << to_string(loaded.findings.at(0));
  for (std::size_t f = 0; f < loaded.config->files.size(); ++f) {
    const FileEntry& file = loaded.config->files[f];
    for (std::size_t e = 0; e < file.entries.size() && e < most; ++e) {
      const Entry& entry = file.entries[e];
      const bool has_mode = static_cast<bool>(entry.node.find_key("mode"));
      const std::optional<Mode> before = has_mode ? std::optional{entry.mode} : std::nullopt;
      const auto mode = [&](std::optional<Mode> wanted) {
        return [&, wanted](Editor& editor, const Config& config) {
          return editor.set_mode(config.files[f].entries[e], wanted);
        };
      };
      std::string changed = must_edit(text, mode(Mode::xfail_strict));
      EXPECT_NE(changed, text);
      EXPECT_EQ(must_edit(changed, mode(before)), text) << changed;
      EXPECT_EQ(comments(changed), comments(text));

      if (entry.rationale) continue;
      const auto rationale = [&](std::optional<Rationale> wanted, std::optional<Mode> with) {
        return [&, wanted, with](Editor& editor, const Config& config) -> base::Result<void> {
          const Entry& here = config.files[f].entries[e];
          if (auto done = editor.set_mode(here, with); !done) return done;
          return editor.set_rationale(here, wanted);
        };
      };
      changed = must_edit(text, rationale(some_rationale(), Mode::xfail));
      const Loaded after = load_text(changed);
      ASSERT_TRUE(after.ok()) << to_string(after.findings.at(0)) << "\n" << changed;
      EXPECT_EQ(after.config->files[f].entries[e].rationale, some_rationale());
      EXPECT_EQ(must_edit(changed, rationale(std::nullopt, before)), text) << changed;
      EXPECT_EQ(comments(changed), comments(text));
    }
    const auto add = [&](Editor& editor, const Config& config) {
      return editor.add_entry(config.files[f], {"Added::test", "test_.*"},
                              {Mode::xfail, some_rationale()});
    };
    const std::string added = must_edit(text, add);
    // In a file entry in flow style the key itself stays.
    if (file.node.find_key("tests") || file.node.style() == Node::Style::block) {
      EXPECT_EQ(must_edit(added,
                          [&](Editor& editor, const Config& config) {
                            return editor.remove_entry(config.files[f],
                                                       config.files[f].entries.back());
                          }),
                text)
          << added;
    }
    EXPECT_EQ(comments(added), comments(text));
  }
}

// Deciding about a name changes that name alone, and loses no comment.
void expect_precise(const std::string& text, const std::vector<std::size_t>& which) {
  const Loaded loaded = load_text(text);
  ASSERT_TRUE(loaded.ok());
  std::size_t number = 0;
  for (std::size_t f = 0; f < loaded.config->files.size(); ++f) {
    for (const Entry& entry : loaded.config->files[f].entries) {
      for (const Name& name : entry.names) {
        if (std::find(which.begin(), which.end(), number++) == which.end()) continue;
        Decision decision{entry.mode == Mode::xfail ? Mode::skip : Mode::xfail, some_rationale()};
        const std::string changed = must_edit(text, [&](Editor& editor, const Config& config) {
          return editor.decide(config.files[f], name.text(), decision);
        });
        const Loaded after = load_text(changed);
        ASSERT_TRUE(after.ok()) << to_string(after.findings.at(0)) << "\n" << changed;
        auto expected = decisions(*loaded.config);
        expected.at(std::string{loaded.config->files[f].path} + " " + std::string{name.text()} +
                    " " + to_string(entry.when)) = decision;
        EXPECT_TRUE(decisions(*after.config) == expected) << name.text() << "\n" << changed;
        const auto kept = comments(text);
        const auto now = comments(changed);
        EXPECT_TRUE(std::includes(now.begin(), now.end(), kept.begin(), kept.end())) << name.text();
      }
    }
  }
}

TEST(Edit, AnEditAndItsReverseGiveTheSameBytes) {
  expect_reversible(k_layouts, 100);
  expect_reversible(k_layouts + "\n", 100);
  std::string other;
  for (const char c : k_layouts) other += c == '\n' ? "\r\n" : std::string{c};
  expect_reversible(other, 100);
}

TEST(Edit, OnlyTheNameThatIsMeantChanges) {
  std::vector<std::size_t> all(20);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  expect_precise(k_layouts, all);
}

// Many decisions at once are the same as one after the other.
TEST(Edit, ManyDecisionsAtOnce) {
  std::mt19937 random{1};
  const Loaded loaded = load_text(k_layouts);
  ASSERT_TRUE(loaded.ok());
  for (int round = 0; round < 200; ++round) {
    Editor editor{*loaded.config};
    auto expected = decisions(*loaded.config);
    for (const FileEntry& file : loaded.config->files) {
      for (const Entry& entry : file.entries) {
        for (const Name& name : entry.names) {
          if (random() % 2 == 0) continue;
          const std::string key =
              std::string{file.path} + " " + std::string{name.text()} + " " + to_string(entry.when);
          if (random() % 4 == 0) {
            ASSERT_TRUE(editor.remove(file, name.text()));
            expected.erase(key);
            continue;
          }
          Decision decision{random() % 2 == 0 ? Mode::xfail : Mode::skip, {}};
          if (random() % 2 == 0) decision.rationale = some_rationale();
          ASSERT_TRUE(editor.decide(file, name.text(), decision));
          expected[key] = decision;
        }
      }
    }
    const auto result = editor.apply();
    ASSERT_TRUE(result) << result.error().message;
    const Loaded after = load_text(*result);
    ASSERT_TRUE(after.ok()) << to_string(after.findings.at(0)) << "\n" << *result;
    ASSERT_TRUE(decisions(*after.config) == expected) << *result;
  }
}

TEST(Edit, RealFilesAreEditedInPlace) {
  std::filesystem::path root;
  const auto files = real_configurations(root);
  if (files.empty()) GTEST_SKIP() << "no configurations at " << root;
  std::mt19937 random{1};
  for (const auto& path : files) {
    const std::string text = *base::read_file(path);
    if (!load_text(text).ok()) continue;
    SCOPED_TRACE(path);
    expect_reversible(text, text.size() > 100'000 ? 1 : 3);
    if (text.size() > 100'000) continue;
    expect_precise(text, {random() % 3, 3 + random() % 10, 13 + random() % 100});
  }
}

TEST(Write, TextsSurvive) {
  const std::vector<std::string> texts{"",
                                       "a",
                                       "yes",
                                       "null",
                                       "~",
                                       "1",
                                       "-1",
                                       "1e3",
                                       "a: b",
                                       "a:",
                                       "a #b",
                                       "#",
                                       "- a",
                                       "[",
                                       "'",
                                       "\"",
                                       "\\",
                                       "a\nb\n",
                                       "\t",
                                       " a ",
                                       std::string{"\0", 1},
                                       "\x7f",
                                       "\xC2\x85",
                                       "\xE2\x80\xA8",
                                       "\xEF\xBB\xBF",
                                       "\xF0\x9F\x98\x80",
                                       "aten::add.Tensor",
                                       "@",
                                       "`",
                                       "%",
                                       "!a",
                                       "&a",
                                       "*a",
                                       "?",
                                       ",",
                                       "2026-11-30"};
  for (const std::string& text : texts) {
    for (const std::string& written : {in_quotes(text), plain_or_quoted(text)}) {
      for (const std::string& in :
           {"a: " + written + "\n", "[" + written + ", x]", "{a: " + written + "}"}) {
        std::vector<Finding> findings;
        const auto document = Document::parse("t", in, findings);
        ASSERT_TRUE(document) << in;
        Node node = document->root().first();
        if (document->root().is(Node::Kind::mapping)) node = node.next();
        EXPECT_EQ(node.text(), text) << in;
        EXPECT_FALSE(node.is_null()) << in;
      }
    }
  }
}

// What is written in block style says the same; of every real file.
TEST(Write, BlocksSayTheSame) {
  std::filesystem::path root;
  std::vector<std::string> texts{k_layouts};
  for (const auto& path : real_configurations(root)) texts.push_back(*base::read_file(path));
  for (const std::string& text : texts) {
    std::vector<Finding> findings;
    const auto document = Document::parse("t", text, findings);
    ASSERT_TRUE(document);
    const std::string written = block(document->root(), 0);
    const auto again = Document::parse("t", written, findings);
    ASSERT_TRUE(again) << to_string(findings.back()) << written.substr(0, 2000);
    EXPECT_TRUE(same_value(document->root(), again->root()));
  }
}

}  // namespace
}  // namespace crosscheck::config
