#include "local/process_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::local {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Generous: only a broken program takes longer.
constexpr auto patience = 60s;

template <typename Condition>
bool becomes_true(const Condition& condition) {
  for (const auto deadline = std::chrono::steady_clock::now() + patience;
       std::chrono::steady_clock::now() < deadline;) {
    if (condition()) return true;
    ::poll(nullptr, 0, 5);
  }
  return false;
}

class ProcessGroupTest : public testing::Test {
 protected:
  ProcessSpec shell(const std::string& script) const {
    return {.arguments = {"/bin/sh", "-c", script},
            .environment = {"PATH=/usr/bin:/bin", "FOLDER=" + folder_.path()},
            .output_path = (folder_.file("logs") / "out").string(),
            .error_path = (folder_.file("logs") / "err").string()};
  }
  static ProcessEvent next(ProcessGroup& group) {
    pollfd readable{.fd = group.event_fd(), .events = POLLIN};
    EXPECT_EQ(::poll(&readable, 1, static_cast<int>(std::chrono::milliseconds{patience}.count())), 1);
    const auto event = group.next_event();
    EXPECT_TRUE(event);
    return event.value_or(ProcessNotStarted{"nothing happened"});
  }
  static ProcessGroup started(const ProcessSpec& spec) {
    auto group = ProcessGroup::start(spec);
    EXPECT_TRUE(group) << group.error().message;
    const ProcessEvent event = next(*group);
    EXPECT_TRUE(std::holds_alternative<ProcessStarted>(event)) << event.index();
    return *std::move(group);
  }
  static ProcessEnded ended(ProcessGroup& group) {
    const ProcessEvent event = next(group);
    EXPECT_TRUE(std::holds_alternative<ProcessEnded>(event));
    return std::get<ProcessEnded>(event);
  }
  /// Waits for a file that a script writes, and returns the pid in it.
  pid_t pid_in(const std::string& file) const {
    EXPECT_TRUE(becomes_true([&] { return fakes::text_of(folder_.file(file)).ends_with('\n'); })) << file;
    return std::stoi(fakes::text_of(folder_.file(file)));
  }
  static bool is_alive(pid_t pid) {
    const std::string stat = fakes::text_of("/proc/" + std::to_string(pid) + "/stat");
    return !stat.empty() && stat.find(") Z ") == std::string::npos;
  }

  const fakes::TemporaryFolder folder_;
};

TEST_F(ProcessGroupTest, EndsAsTheProgramEnds) {
  const std::vector<std::pair<std::string, ProcessEnded>> cases{{"exit 0", {.exit_code = 0}},
                                                                {"exit 93", {.exit_code = 93}},
                                                                {"kill -KILL $$", {.exit_code = 137, .signal = 9}},
                                                                {"kill -SEGV $$", {.exit_code = 139, .signal = 11}}};
  for (const auto& [script, end] : cases) {
    auto group = started(shell(script));
    EXPECT_EQ(ended(group), end) << script;
    EXPECT_EQ(group.next_event(), std::nullopt);
  }
}

TEST_F(ProcessGroupTest, GivesTheProgramItsFilesItsEnvironmentAndNothingElse) {
  ProcessSpec spec = shell("echo out; echo err >&2; env; pwd; cat; ls /proc/self/fd | wc -l");
  spec.environment = {"PATH=/usr/bin:/bin", "ONLY=this"};
  spec.working_directory = "/";
  auto group = started(spec);
  EXPECT_EQ(ended(group), ProcessEnded{});
  EXPECT_EQ(fakes::text_of(spec.error_path), "err\n");
  const std::string output = fakes::text_of(spec.output_path);
  EXPECT_THAT(output, HasSubstr("ONLY=this"));
  EXPECT_THAT(output, testing::Not(HasSubstr("HOME=")));
  EXPECT_THAT(output, testing::EndsWith("/\n4\n"));  // ls holds 0, 1, 2 and the folder itself.
}

TEST_F(ProcessGroupTest, AppendsBothStreamsToOneFileWhenTheyAreOne) {
  ProcessSpec spec = shell("echo one; echo two >&2; echo three");
  spec.error_path = spec.output_path;
  for (int run = 0; run < 2; ++run) {
    auto group = started(spec);
    EXPECT_EQ(ended(group), ProcessEnded{});
  }
  EXPECT_EQ(fakes::text_of(spec.output_path), "one\ntwo\nthree\none\ntwo\nthree\n");
}

TEST_F(ProcessGroupTest, SwallowsAnyAmountOfOutput) {
  auto group = started(shell("head -c 20000000 /dev/zero"));
  EXPECT_EQ(ended(group), ProcessEnded{});
  EXPECT_EQ(std::filesystem::file_size(folder_.file("logs") / "out"), 20'000'000U);
}

TEST_F(ProcessGroupTest, FindsAProgramInTheFirstFolderOfPathThatHasOneToRun) {
  for (const char* name : {"plain", "folder/tool", "first", "second"})
    std::filesystem::create_directories(folder_.file(name));
  folder_.write("plain/tool", "#!/bin/sh\necho plain\n");
  for (const char* name : {"first", "second"}) {
    const auto tool = folder_.write(std::string{name} + "/tool", std::string{"#!/bin/sh\necho "} + name + "\n");
    std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  }
  const std::string path = folder_.path();
  ProcessSpec spec = shell("");
  spec.arguments = {"tool"};
  spec.environment = {"PATHS=/no/such/folder", "PATH=" + path + "/absent:" + path + "/plain:" + path +
                                                   "/folder:" + path + "/first:" + path + "/second"};
  auto group = started(spec);
  EXPECT_EQ(ended(group), ProcessEnded{});
  EXPECT_EQ(fakes::text_of(spec.output_path), "first\n");
}

TEST_F(ProcessGroupTest, SaysWhyAProgramCannotBeStarted) {
  const auto refusal = [&](auto change) {
    ProcessSpec spec = shell("true");
    change(spec);
    auto group = ProcessGroup::start(spec);
    if (!group) return group.error().message;
    const ProcessEvent event = next(*group);
    const auto* refused = std::get_if<ProcessNotStarted>(&event);
    return refused == nullptr ? std::string{"it started"} : refused->message;
  };
  std::ofstream{folder_.file("plain")} << "no program\n";
  const std::string plain = folder_.file("plain").string();
  EXPECT_EQ(refusal([](ProcessSpec& spec) { spec.arguments = {"no-such-program"}; }),
            "exec \"no-such-program\": executable file not found in $PATH");
  EXPECT_EQ(refusal([](ProcessSpec& spec) { spec.arguments = {"/no/such/program"}; }),
            "exec /no/such/program: No such file or directory");
  EXPECT_EQ(refusal([&](ProcessSpec& spec) { spec.arguments = {plain}; }), "exec " + plain + ": Permission denied");
  EXPECT_EQ(refusal([](ProcessSpec& spec) { spec.working_directory = "/no/such/folder"; }),
            "change to the working directory /no/such/folder: No such file or directory");
  EXPECT_EQ(refusal([](ProcessSpec& spec) { spec.arguments = {}; }), "there is no command to run");
  EXPECT_EQ(refusal([&](ProcessSpec& spec) { spec.output_path = plain + "/log"; }),
            "open log file " + plain + "/log: Not a directory");
}

TEST_F(ProcessGroupTest, TerminateReachesEveryProcessOfTheGroup) {
  auto group = started(shell("sleep 1000 & echo $! >$FOLDER/child; trap 'wait; exit 5' TERM; wait"));
  const pid_t child = pid_in("child");
  group.terminate();
  EXPECT_EQ(ended(group), ProcessEnded{.exit_code = 5});
  EXPECT_FALSE(is_alive(child));
}

TEST_F(ProcessGroupTest, KillEndsWhatIgnoresSigterm) {
  auto group = started(shell("trap '' TERM; echo $$ >$FOLDER/pid; while :; do sleep 1; done"));
  pid_in("pid");
  group.terminate();
  group.kill();
  EXPECT_EQ(ended(group), (ProcessEnded{.exit_code = 137, .signal = 9}));
}

TEST_F(ProcessGroupTest, NothingOutlivesTheProgramNotEvenWhatHasLeftItsSession) {
  auto group =
      started(shell("setsid sh -c 'echo $$ >$FOLDER/away; exec sleep 1000' & sleep 1000 & echo $! >$FOLDER/child; "
                    "while ! [ -s $FOLDER/away ]; do :; done; exit 3"));
  EXPECT_EQ(ended(group), ProcessEnded{.exit_code = 3});
  EXPECT_FALSE(is_alive(pid_in("away")));
  EXPECT_FALSE(is_alive(pid_in("child")));
}

TEST_F(ProcessGroupTest, DestructionKillsAndWaits) {
  pid_t program = 0;
  {
    auto group = started(shell("trap '' TERM; echo $$ >$FOLDER/pid; while :; do sleep 1; done"));
    program = pid_in("pid");
  }
  EXPECT_FALSE(is_alive(program));
}

TEST_F(ProcessGroupTest, EverythingDiesWithAParentThatIsKilled) {
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto group = ProcessGroup::start(
        shell("setsid sh -c 'echo $$ >$FOLDER/away; exec sleep 1000' & echo $$ >$FOLDER/pid; wait"));
    while (group) ::pause();
    ::_exit(1);
  }
  const pid_t program = pid_in("pid");
  const pid_t away = pid_in("away");
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(becomes_true([&] { return !is_alive(program) && !is_alive(away); }));
}

TEST_F(ProcessGroupTest, AReaperThatIsKilledTakesTheProgramWithIt) {
  auto group = started(shell("echo $$ >$FOLDER/pid; echo $PPID >$FOLDER/reaper; exec sleep 1000"));
  const pid_t program = pid_in("pid");
  ::kill(pid_in("reaper"), SIGKILL);
  EXPECT_EQ(ended(group), (ProcessEnded{.exit_code = 137, .signal = 9}));
  EXPECT_TRUE(becomes_true([&] { return !is_alive(program); }));
}

}  // namespace
}  // namespace trainyard::local
