#include "storage/child_program.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_descriptor.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Result<ProgramEnd> run_shell(const std::string& script, std::chrono::milliseconds deadline = 60s) {
  return run_program({"/bin/sh", "-c", script}, deadline);
}

TEST(RunProgram, GivesWhatItWroteAndHowItEnded) {
  const auto end = run_shell("echo out; echo words >&2; exit 7");
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->exit_code, 7);
  EXPECT_EQ(end->output, "out\n");
  EXPECT_EQ(end->words, "words");
  EXPECT_EQ(run_shell("kill -9 $$")->exit_code, 137);
}

TEST(RunProgram, PassesArgumentsAsTheyAreAndNoInput) {
  const auto end = run_program({"/bin/sh", "-c", "cat; printf '%s|' \"$@\"", "x", "a b", "$HOME;*", ""}, 60s);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "a b|$HOME;*||");
}

TEST(RunProgram, TakesMuchOutputAndKeepsTheEndOfTheWords) {
  const auto end = run_shell("head -c 1000000 /dev/zero; yes early 2>/dev/null | head -n 100000 >&2; echo late >&2");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output.size(), 1'000'000U);
  EXPECT_THAT(end->words, testing::EndsWith("late"));
  EXPECT_LE(end->words.size(), 300U);
}

TEST(RunProgram, EndsItWithAllThatItStartedAtTheDeadline) {
  const fakes::TemporaryFolder folder;
  const std::string fifo = folder.file("fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const FileDescriptor reader{::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  const auto end = run_shell("(exec 3>" + fifo + "; echo x >&3; sleep 1000) & wait", 1s);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind, ErrorKind::timeout);
  EXPECT_THAT(end.error().message, HasSubstr("/bin/sh did not end within 1 seconds"));
  // Ends only when nobody holds the other end any more.
  ::fcntl(reader.get(), F_SETFL, 0);
  char byte = 0;
  while (::read(reader.get(), &byte, 1) > 0) {
  }
}

TEST(RunProgram, DoesNotWaitForWhatItLeftRunning) {
  const auto end = run_shell("sleep 20 & echo started");
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->output, "started\n");
}

TEST(RunProgram, SaysThatThereIsNoSuchProgram) {
  const fakes::TemporaryFolder folder;
  for (const std::string& path : {folder.file("none").string(), folder.write("plain", "text").string()}) {
    const auto end = run_program({path}, 60s);
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().kind, ErrorKind::invalid);
    EXPECT_THAT(end.error().message, HasSubstr("running " + path));
  }
}

}  // namespace
}  // namespace trainyard::storage
