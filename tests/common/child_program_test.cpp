#include "common/child_program.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "common/file_descriptor.hpp"
#include "tests/fakes/redirection.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard {
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

TEST(RunProgram, TakesMuchOutputAndKeepsTheEndOfStandardError) {
  const auto end = run_shell("head -c 1000000 /dev/zero; yes early 2>/dev/null | head -n 100000 >&2; echo late >&2");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output.size(), 1'000'000U);
  EXPECT_THAT(end->words, testing::EndsWith("late"));
  EXPECT_THAT(end->words, testing::StartsWith("... "));
  EXPECT_LE(end->words.size(), 280U);
  EXPECT_GE(end->words.size(), 270U);
  const auto longest = run_shell("head -c 280 /dev/zero | tr '\\0' x >&2");
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->words, std::string(280, 'x'));
}

TEST(RunProgram, RefusesOutputWithoutEnd) {
  const auto end = run_program({"/bin/cat", "/dev/zero"}, 60s);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind, ErrorKind::invalid);
  EXPECT_EQ(end.error().message, "/bin/cat wrote more than 67108864 bytes to its standard output");
}

TEST(RunProgram, EndsOneThatWritesToStandardErrorWithoutEndAtTheDeadline) {
  const auto end = run_program({"/bin/sh", "-c", "exec cat /dev/zero >&2"}, 100ms);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind, ErrorKind::timeout);
}

TEST(RunProgram, ReadsAPipeThatHoldsManySmallPieces) {
  // Each read from a pipe with O_DIRECT takes one piece.
  const auto end = run_program({"/usr/bin/python3", "-c",
                                "import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\n"
                                "fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_DIRECT)\n"
                                "for piece in range(200): os.write(1, b'x')\n"},
                               60s);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->output.size(), 200U) << end->words;
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
  // Ends only when no process holds the other end any more.
  ::fcntl(reader.get(), F_SETFL, 0);
  char byte = 0;
  while (::read(reader.get(), &byte, 1) > 0) {
  }
}

TEST(RunProgram, EndsTheProgramOnceAStopIsRequested) {
  std::stop_source stop;
  stop.request_stop();
  const auto end = run_program({"/bin/sh", "-c", "sleep 600"}, 600s, {.stop = stop.get_token()});
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind, ErrorKind::cancelled);
}

TEST(RunProgram, GivesTheProgramTheUsualSignalsWhateverThisProcessDoesWithThem) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto ignored = std::signal(SIGUSR1, SIG_IGN);
  const auto terminated = run_shell("kill -TERM $$");
  const auto signalled = run_shell("kill -USR1 $$");
  std::signal(SIGUSR1, ignored);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(terminated && signalled);
  EXPECT_EQ(terminated->exit_code, 128 + SIGTERM);
  EXPECT_EQ(signalled->exit_code, 128 + SIGUSR1);
}

TEST(RunProgram, KeepsStandardErrorOnOneLine) {
  const auto end = run_shell(R"(printf 'a\tb\r\nsig=c.\033[1m\177 d\n\n' >&2)");
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->words, "a b  sig=c. [1m  d");
}

TEST(RunProgram, AddsToTheEnvironment) {
  ::setenv("TRAINYARD_TEST_KEPT", "ours", 1);
  ::setenv("TRAINYARD_TEST_CHANGED", "ours", 1);
  // Prints its environment; a variable that was given twice would come twice.
  const auto end = run_program(
      {"/usr/bin/env"}, 60s, {.environment = {{"TRAINYARD_TEST_CHANGED", "theirs"}, {"TRAINYARD_TEST_NEW", "a=b c"}}});
  ASSERT_TRUE(end) << end.error().message;
  std::set<std::string> variables;
  std::istringstream lines{end->output};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("TRAINYARD_TEST_")) variables.insert(line);
  }
  EXPECT_EQ(variables, (std::set<std::string>{"TRAINYARD_TEST_CHANGED=theirs", "TRAINYARD_TEST_KEPT=ours",
                                              "TRAINYARD_TEST_NEW=a=b c"}));
  EXPECT_STREQ(std::getenv("TRAINYARD_TEST_CHANGED"), "ours");
}

struct Seen {
  Result<ProgramEnd> end;
  std::string errors;  // The output to this process's standard error.
};

// Runs a program that prints its process group, its input and an error text, while this process's standard input is a
// text.
Seen run_beside_input(bool is_sharing_terminal) {
  // The process group is the fifth field of /proc/PID/stat, for a program's name without blanks.
  const std::string script = "cut -d ' ' -f 5 < /proc/$$/stat; cat; echo words >&2";
  const fakes::TemporaryFolder folder;
  Seen seen;
  {
    const fakes::Redirection input{STDIN_FILENO, folder.write("input", "typed"), O_RDONLY};
    const fakes::Redirection error{STDERR_FILENO, folder.file("errors"), O_WRONLY};
    seen.end = run_program({"/bin/sh", "-c", script}, 60s, {.is_sharing_terminal = is_sharing_terminal});
  }
  seen.errors = fakes::text_of(folder.file("errors"));
  return seen;
}

TEST(RunProgram, SharesTheTerminalAndTheProcessGroupWhenAsked) {
  const Seen seen = run_beside_input(true);
  ASSERT_TRUE(seen.end) << seen.end.error().message;
  EXPECT_EQ(seen.end->output, std::to_string(::getpgrp()) + "\ntyped");
  EXPECT_EQ(seen.end->words, "");
  EXPECT_EQ(seen.errors, "words\n");
}

TEST(RunProgram, SharesNeitherWhenNotAsked) {
  const Seen seen = run_beside_input(false);
  ASSERT_TRUE(seen.end) << seen.end.error().message;
  EXPECT_NE(seen.end->output, std::to_string(::getpgrp()) + "\n");
  EXPECT_THAT(seen.end->output, testing::Not(HasSubstr("typed")));
  EXPECT_EQ(seen.end->words, "words");
  EXPECT_EQ(seen.errors, "");
}

TEST(RunProgram, EndsOneThatSharesTheTerminalAndNotItsOwnGroup) {
  const auto end = run_program({"/bin/sh", "-c", "exec sleep 1000"}, 100ms, {.is_sharing_terminal = true});
  ASSERT_FALSE(end) << "and this process is still there";
  EXPECT_EQ(end.error().kind, ErrorKind::timeout);
}

TEST(RunProgram, DoesNotWaitForWhatItLeftRunning) {
  const auto end = run_shell("sleep 20 & echo started");
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->output, "started\n");
}

TEST(RunProgram, ReadsWhatIsWrittenAfterItsEndUntilTheDeadlineOrAStop) {
  const fakes::TemporaryFolder folder;
  const std::string pid_file = folder.file("pid").string();
  const std::string leaves_a_writer = "cat /dev/zero >&2 & echo $$ >" + pid_file + "; exit 3";
  const auto until_deadline = run_shell(leaves_a_writer, 200ms);
  ASSERT_TRUE(until_deadline) << until_deadline.error().message;
  EXPECT_EQ(until_deadline->exit_code, 3);
  std::filesystem::remove(pid_file);
  std::stop_source stop;
  const std::jthread after_its_end{[&] {
    while (!fakes::text_of(pid_file).ends_with('\n')) std::this_thread::yield();
    const int pid = std::stoi(fakes::text_of(pid_file));
    while (::kill(pid, 0) == 0) std::this_thread::yield();
    stop.request_stop();
  }};
  const auto until_stop = run_program({"/bin/sh", "-c", leaves_a_writer}, 60s, {.stop = stop.get_token()});
  ASSERT_TRUE(until_stop) << until_stop.error().message;
  EXPECT_EQ(until_stop->exit_code, 3);
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
}  // namespace trainyard
