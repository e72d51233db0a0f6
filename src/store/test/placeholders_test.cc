#include "../src/placeholders.h"

#include <gtest/gtest.h>

namespace crosscheck::store {
namespace {

TEST(Placeholders, AreRewrittenOutsideOfQuotesAndComments) {
  const std::pair<const char*, const char*> cases[]{
      {"", ""},
      {"$1", "?1"},
      {"$1,$22+$3", "?1,?22+?3"},
      {"a=$1 AND b=($2)", "a=?1 AND b=(?2)"},
      {"'$1' $1", "'$1' ?1"},
      {"'it''s $1' $2", "'it''s $1' ?2"},
      {"\"$1\" $1", "\"$1\" ?1"},
      {"[$1] `$1` $1", "[$1] `$1` ?1"},
      {"-- $1\n$1", "-- $1\n?1"},
      {"/* $1 */$1", "/* $1 */?1"},
      {"/* ' */ $1 -- '\n$2", "/* ' */ ?1 -- '\n?2"},
      {"'$1", "'$1"},
      {"/* $1", "/* $1"},
      {"$ $a $1a a$1 $$1", "$ $a $1a a$1 $$1"},
      {"1-$1", "1-?1"},
      {"é$1 $1", "é$1 ?1"},
  };
  for (const auto& [sql, expected] : cases) EXPECT_EQ(to_sqlite_placeholders(sql), expected);
}

TEST(Placeholders, ASecondStatementIsNoticed) {
  for (const char* one : {"", "SELECT 1", "SELECT 1;", "SELECT 1; ", "SELECT ';' ;-- x ; y",
                          "SELECT 1 /* ; */ ; /* ; */ ;\n", "SELECT \";\" [;]"}) {
    EXPECT_FALSE(has_second_statement(one)) << one;
  }
  for (const char* two : {"SELECT 1;SELECT 2", "SELECT 1; /* */ x", "SELECT ';'; 'x'", ";x"}) {
    EXPECT_TRUE(has_second_statement(two)) << two;
  }
}

}  // namespace
}  // namespace crosscheck::store
