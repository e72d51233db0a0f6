#include "harness.h"

namespace crosscheck::store::testing {
namespace {

using base::Fault;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Redact, HidesPasswordsAndNothingElse) {
  const std::pair<const char*, const char*> cases[]{
      {"store.db", "store.db"},
      {"sqlite:/var/lib/a:b@c.db", "sqlite:/var/lib/a:b@c.db"},
      {"postgresql://host/db", "postgresql://host/db"},
      {"postgresql://host:5432/db", "postgresql://host:5432/db"},
      {"postgresql://user@host:5432/db", "postgresql://user@host:5432/db"},
      {"postgresql://user:pw@host:5432/db", "postgresql://user:***@host:5432/db"},
      {"postgresql://user:pw@/db?host=/tmp/x", "postgresql://user:***@/db?host=/tmp/x"},
      {"postgres://user:p/w?d@x#@host/db", "postgres://user:***@host/db"},
      {"postgresql://host/db?user=u&password=pw", "postgresql://host/db?user=u&password=***"},
      {"postgresql://host/db?sslpassword=pw&sslmode=require",
       "postgresql://host/db?sslpassword=***&sslmode=require"},
      {"mysql://user:pw@host", "mysql://user:***@host"},
  };
  for (const auto& [url, shown] : cases) EXPECT_EQ(redact(url), shown);
}

TEST(Open, NeverShowsAPassword) {
  for (const std::string url :
       {"postgresql://u:hush@127.0.0.1:1/db", "postgresql://u:hush@@127.0.0.1:1/db",
        "postgresql://u:hush/hush@127.0.0.1:1/db", "postgresql://u:hush?@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?password=hush", "postgresql://u:hush#x@127.0.0.1:1/db",
        "mysql://u:hush@127.0.0.1/db"}) {
    SCOPED_TRACE(url);
    auto store = open(url);
    ASSERT_FALSE(store);
    EXPECT_THAT(to_string(store.error()), Not(HasSubstr("hush")));
  }
}

TEST(Open, NamesWhatIsWrongWithTheUrl) {
  EXPECT_FAULT(open("mysql://host/db"), Fault::usage);
  EXPECT_FAULT(open(""), Fault::usage);
  EXPECT_FAULT(open(":memory:"), Fault::usage);
  EXPECT_FAULT(open("sqlite::memory:"), Fault::usage);
  const auto gone = open("postgresql://u@127.0.0.1:1/db");
  EXPECT_FAULT(gone, Fault::unavailable);
  EXPECT_THAT(gone.error().message, HasSubstr("postgresql://u@127.0.0.1:1/db"));
  EXPECT_FAULT(open("postgresql://u:a/b@127.0.0.1:1/db"), Fault::invalid_input);
}

}  // namespace
}  // namespace crosscheck::store::testing
