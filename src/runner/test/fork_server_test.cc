#include "crosscheck/runner/fork_server.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "support.h"

// What it does with a real torch is tested in probe/tests and tests/e2e.
namespace crosscheck::runner {
namespace {

constexpr std::array<int, 4> k_descriptors{0, 1, 2, 2};

TEST(ForkServer, OneThatDoesNotServeForksNothing) {
  TemporaryFolder folder;
  // The stand-in knows no such verb.
  ForkServer server{fake_probe(folder / "log")};
  EXPECT_FALSE(server.fork("run", k_descriptors));
  EXPECT_FALSE(server.fork("run", k_descriptors));
}

TEST(ForkServer, NorDoesOneThatCannotBeStarted) {
  auto setup = ProbeSetup{};
  setup.python = "/nonexistent/python";
  ForkServer server{setup};
  EXPECT_FALSE(server.fork("run", k_descriptors));
}

TEST(ForkServer, AnInterruptEndsTheWaitAndStaysToBeRead) {
  auto pipe = base::make_pipe();
  ASSERT_TRUE(pipe);
  ASSERT_EQ(::write(pipe->write.get(), "x", 1), 1);
  auto setup = ProbeSetup{};
  setup.python = "sleep";  // says nothing, and does not end by itself
  ForkServer server{setup, pipe->read.get()};
  EXPECT_FALSE(server.fork("run", k_descriptors));
  char byte = 0;
  EXPECT_EQ(::read(pipe->read.get(), &byte, 1), 1);
}

}  // namespace
}  // namespace crosscheck::runner
