#include "operator/kube/exec_plugin.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <thread>

#include "common/file_descriptor.hpp"
#include "operator/kube/credentials.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/redirection.hpp"
#include "tests/operator/kube/plugin_program.hpp"

namespace trainyard::kube {
namespace {

using nlohmann::json;
using std::chrono::seconds;

void expect_has(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(DecideInteractive, FollowsTheModeAndTheTerminal) {
  EXPECT_EQ(decide_interactive(InteractiveMode::never, true), false);
  EXPECT_EQ(decide_interactive(InteractiveMode::never, false), false);
  EXPECT_EQ(decide_interactive(InteractiveMode::if_available, true), true);
  EXPECT_EQ(decide_interactive(InteractiveMode::if_available, false), false);
  EXPECT_EQ(decide_interactive(InteractiveMode::always, true), true);
  const auto refused = decide_interactive(InteractiveMode::always, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unauthorized);
  expect_has(refused.error().message, "standard input is not a terminal: run this in a terminal");
}

TEST(FindProgram, TakesTheFirstOfItsNameThatMayBeRun) {
  const fakes::TemporaryFolder folder;
  for (const char* name : {"empty", "plain", "subfolder", "subfolder/get", "first", "second"})
    std::filesystem::create_directory(folder.file(name));
  folder.write("plain/get", "");
  for (const char* name : {"first/get", "second/get"})
    std::filesystem::permissions(folder.write(name, ""), std::filesystem::perms::owner_all);
  const auto path = [&](const char* name) { return folder.file(name).string(); };

  EXPECT_EQ(find_program("get", path("empty") + "::" + path("plain") + ":" + path("subfolder") + ":" + path("first") +
                                    ":" + path("second")),
            path("first/get"));
  EXPECT_EQ(find_program("get", path("empty")), std::nullopt);
  EXPECT_EQ(find_program("get", ""), std::nullopt);
  EXPECT_EQ(find_program(path("second/get"), ""), path("second/get"));
  EXPECT_EQ(find_program(path("plain/get"), path("first")), std::nullopt);

  const std::string relative = std::filesystem::relative(path("first")).string();
  ASSERT_TRUE(std::filesystem::exists(relative + "/get"));
  EXPECT_EQ(find_program("get", relative), std::nullopt);
}

TEST(ExecPlugin, AsksAgainShortlyBeforeTheExpiry) {
  const PluginProgram program{R"(give "\"token\": \"token-$n\", \"expirationTimestamp\": \"2026-01-01T01:00:00Z\"")"};
  const auto clock = std::make_shared<fakes::FakeClock>();
  ExecPlugin plugin{program.entry(), {}, {}, clock};
  EXPECT_EQ(plugin.credential()->token, "token-1");
  clock->advance(seconds{3589});
  EXPECT_EQ(plugin.credential()->token, "token-1");
  clock->advance(seconds{1});
  EXPECT_EQ(plugin.credential()->token, "token-2");
  EXPECT_EQ(plugin.credential()->token, "token-2");
  EXPECT_EQ(program.run_count(), 2);
}

TEST(ExecPlugin, AsksAgainOnceWhenTheServerRefusesWhatItGaveLast) {
  const PluginProgram program{"token token-$n"};
  ExecPlugin plugin{program.entry(), {}};
  EXPECT_EQ(plugin.credential()->token, "token-1");
  plugin.refuse("token-1");
  EXPECT_EQ(plugin.credential()->token, "token-2");
  plugin.refuse("token-1");  // by a request that was in flight meanwhile
  EXPECT_EQ(plugin.credential()->token, "token-2");
  EXPECT_EQ(program.run_count(), 2);
}

TEST(ExecPlugin, AsksAgainAfterAFailure) {
  const PluginProgram program{"[ $n -gt 1 ] || exit 1; token token-$n"};
  ExecPlugin plugin{program.entry(), {}};
  EXPECT_FALSE(plugin.credential());
  EXPECT_EQ(plugin.credential()->token, "token-2");
}

TEST(ExecPlugin, PassesOnItsArgumentsItsVariablesAndTheQuestion) {
  const PluginProgram program{
      R"(printf '%s|' "$@" > arguments; echo "$MODE" > mode; echo "$KUBERNETES_EXEC_INFO" > info; token t)"};
  ExecEntry entry = program.entry();
  entry.arguments = {"get-token", "--name", "a b", ""};
  entry.environment = {{"MODE", "quiet"}, {"KUBERNETES_EXEC_INFO", "not this"}};
  entry.is_cluster_wanted = true;
  const ExecCluster cluster{.server = "https://10.0.0.1", .ca_pem = "ca", .config = {{"audience", "x"}}};
  ASSERT_TRUE(ExecPlugin(entry, cluster).credential());
  EXPECT_EQ(program.text("arguments"), "get-token|--name|a b||");
  EXPECT_EQ(program.text("mode"), "quiet\n");
  EXPECT_EQ(json::parse(program.text("info")), json::parse(make_exec_info(entry, cluster, false)));
}

TEST(ExecPlugin, IsFoundInPath) {
  const PluginProgram program{"token t"};
  ExecEntry entry = program.entry();
  entry.command = "plugin";
  const std::string former = ::getenv("PATH");
  ::setenv("PATH", (former + ":" + program.folder().path()).c_str(), 1);
  const auto credential = ExecPlugin(entry, {}).credential();
  ::setenv("PATH", former.c_str(), 1);
  ASSERT_TRUE(credential) << credential.error().message;
  EXPECT_EQ(credential->token, "t");
}

TEST(ExecPlugin, SaysThatItIsNotThereAndHowToGetIt) {
  ExecEntry entry;
  entry.api_version = "client.authentication.k8s.io/v1";
  entry.command = "trainyard-no-such-plugin";
  const auto bare = ExecPlugin(entry, {}).credential();
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().kind, ErrorKind::unauthorized);
  EXPECT_EQ(bare.error().message,
            "the exec plugin \"trainyard-no-such-plugin\": there is no such program in PATH: install it, or mend "
            "exec.command");
  entry.install_hint = "Get it: https://example.com/get";
  expect_has(ExecPlugin(entry, {}).credential().error().message,
             "no such program in PATH: Get it: https://example.com/get");
  entry.command = "/none/plugin";
  expect_has(ExecPlugin(entry, {}).credential().error().message,
             "the exec plugin \"/none/plugin\": there is no such program that may be run: Get it");
}

TEST(ExecPlugin, SaysWhyTheSystemDoesNotRunIt) {
  const fakes::TemporaryFolder folder;
  ExecEntry entry;
  entry.interactive_mode = InteractiveMode::never;
  entry.command = folder.write("plugin", "").string();
  std::filesystem::permissions(entry.command, std::filesystem::perms::owner_all);
  const auto credential = ExecPlugin(entry, {}).credential();
  ASSERT_FALSE(credential);
  EXPECT_EQ(credential.error().kind, ErrorKind::unauthorized);
  expect_has(credential.error().message, "Exec format error; run it by hand to see why");
}

TEST(ExecPlugin, RepeatsWhatItSaysWhenItFailsButNothingThatMayBeAToken) {
  const PluginProgram program{R"sh(
token secret
echo "signing in with $(head -c 150 /dev/zero | tr '\0' s)" >&2
echo "the session has expired." >&2
exit 3)sh"};
  const auto credential = ExecPlugin(program.entry(), {}).credential();
  ASSERT_FALSE(credential);
  EXPECT_EQ(credential.error().kind, ErrorKind::unauthorized);
  EXPECT_EQ(credential.error().message,
            fmt::format("the exec plugin \"{}\": it ended with exit code 3: signing in with ... the session has "
                        "expired; log in again, or run it by hand",
                        program.entry().command));
}

TEST(ExecPlugin, SaysThatItFailedWithoutAWord) {
  const PluginProgram program{"exit 1"};
  expect_has(ExecPlugin(program.entry(), {}).credential().error().message,
             "it ended with exit code 1; log in again, or run it by hand");
}

TEST(ExecPlugin, SaysThatItPrintedRubbish) {
  const PluginProgram program{"echo secret; echo warning >&2"};
  const auto credential = ExecPlugin(program.entry(), {}).credential();
  ASSERT_FALSE(credential);
  EXPECT_EQ(credential.error().kind, ErrorKind::unauthorized);
  EXPECT_EQ(credential.error().message,
            fmt::format("the exec plugin \"{}\": it printed no JSON object; check exec.command and exec.args",
                        program.entry().command));
}

TEST(ExecPlugin, IsEndedWithItsChildrenAtTheDeadline) {
  const PluginProgram program{"(exec 3> fifo; echo x >&3; sleep 1000) & wait"};
  const std::string fifo = program.folder().file("fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const FileDescriptor reader{::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  const auto credential = ExecPlugin(program.entry(), {}, {.deadline = seconds{1}}).credential();
  ASSERT_FALSE(credential);
  EXPECT_EQ(credential.error().kind, ErrorKind::timeout);
  expect_has(credential.error().message, "did not end within 1 seconds; run it by hand to see why");
  // Reads until every other process has closed the other end.
  ::fcntl(reader.get(), F_SETFL, 0);
  char byte = 0;
  while (::read(reader.get(), &byte, 1) > 0) {
  }
}

/// True when the thread waits. The state is field 3 of its stat, after the name in brackets.
bool is_asleep(pid_t thread) {
  const std::string stat = fakes::text_of(fmt::format("/proc/self/task/{}/stat", thread));
  const std::size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "S";
}

/// The results of several threads that ask while `program` runs; it waits for its fifo "gate".
std::vector<Result<ExecCredential>> ask_at_once(const PluginProgram& program) {
  const std::string gate = program.folder().file("gate").string();
  EXPECT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  ExecPlugin plugin{program.entry(), {}, {.deadline = seconds{20}}};
  constexpr std::size_t thread_count = 4;
  std::vector<Result<ExecCredential>> given(thread_count);
  std::array<std::atomic<pid_t>, thread_count> threads{};
  {
    std::vector<std::jthread> askers;
    for (std::size_t index = 0; index < thread_count; ++index) {
      askers.emplace_back([&, index] {
        threads[index] = ::gettid();
        given[index] = plugin.credential();
      });
    }
    while (program.run_count() == 0) std::this_thread::yield();
    const auto are_asleep = [&] {
      return std::ranges::all_of(threads, [](const auto& thread) { return thread != 0 && is_asleep(thread); });
    };
    // Checks twice: a thread that only waited for the plugin's lock is awake at the second check, and has yet to find
    // that the program runs.
    while (!are_asleep() || !are_asleep()) std::this_thread::yield();
    const FileDescriptor opened{::open(gate.c_str(), O_WRONLY | O_CLOEXEC)};
  }
  return given;
}

TEST(ExecPlugin, RunsOnceForSeveralThreads) {
  const PluginProgram program{"cat gate; token token-$n"};
  for (const auto& credential : ask_at_once(program)) {
    ASSERT_TRUE(credential) << credential.error().message;
    EXPECT_EQ(credential->token, "token-1");
  }
  EXPECT_EQ(program.run_count(), 1);
}

TEST(ExecPlugin, FailsOnceForSeveralThreads) {
  const PluginProgram program{"cat gate; echo \"run $n\" >&2; exit 1"};
  for (const auto& credential : ask_at_once(program)) {
    ASSERT_FALSE(credential);
    expect_has(credential.error().message, "run 1");
  }
  EXPECT_EQ(program.run_count(), 1);
}

class ExecPluginInTerminalTest : public testing::Test {
 protected:
  ExecPluginInTerminalTest() {
    ::grantpt(terminal_.get());
    ::unlockpt(terminal_.get());
  }
  [[nodiscard]] std::string terminal_path() const { return ::ptsname(terminal_.get()); }

  FileDescriptor terminal_{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
};

constexpr const char* interactive_script =
    R"([ -t 0 ] && echo "open this page" >&2; echo "$KUBERNETES_EXEC_INFO" > info; token t)";

TEST_F(ExecPluginInTerminalTest, TalksToThePersonAtIt) {
  const PluginProgram program{interactive_script};
  const auto errors = program.folder().file("errors");
  for (const InteractiveMode mode : {InteractiveMode::always, InteractiveMode::if_available}) {
    ExecEntry entry = program.entry();
    entry.interactive_mode = mode;
    program.folder().write("errors", "");
    Result<ExecCredential> credential;
    {
      const fakes::Redirection input{STDIN_FILENO, terminal_path(), O_RDWR};
      const fakes::Redirection error{STDERR_FILENO, errors, O_WRONLY};
      credential = ExecPlugin(entry, {}).credential();
    }
    ASSERT_TRUE(credential) << credential.error().message;
    EXPECT_EQ(fakes::text_of(errors), "open this page\n");
    EXPECT_EQ(json::parse(program.text("info"))["spec"]["interactive"], true);
  }
}

TEST_F(ExecPluginInTerminalTest, LeavesItAloneWhenItIsNeverInteractive) {
  const PluginProgram program{interactive_script};
  const auto errors = program.folder().file("errors");
  Result<ExecCredential> credential;
  {
    const fakes::Redirection input{STDIN_FILENO, terminal_path(), O_RDWR};
    const fakes::Redirection error{STDERR_FILENO, errors, O_WRONLY};
    credential = ExecPlugin(program.entry(), {}).credential();
  }
  ASSERT_TRUE(credential) << credential.error().message;
  EXPECT_EQ(fakes::text_of(errors), "");
  EXPECT_EQ(json::parse(program.text("info"))["spec"]["interactive"], false);
}

TEST_F(ExecPluginInTerminalTest, IsEndedThereAtTheDeadlineForPeople) {
  const PluginProgram program{"exec sleep 1000"};
  ExecEntry entry = program.entry();
  entry.interactive_mode = InteractiveMode::always;
  const fakes::Redirection input{STDIN_FILENO, terminal_path(), O_RDWR};
  const auto credential = ExecPlugin(entry, {}, {.interactive_deadline = std::chrono::milliseconds{300}}).credential();
  ASSERT_FALSE(credential);
  EXPECT_EQ(credential.error().kind, ErrorKind::timeout);
  expect_has(credential.error().message, "within 1 seconds");
}

TEST(ExecPlugin, IsNotRunWhenItNeedsATerminalAndThereIsNone) {
  const PluginProgram program{interactive_script};
  ExecEntry entry = program.entry();
  entry.interactive_mode = InteractiveMode::always;
  const fakes::Redirection input{STDIN_FILENO, "/dev/null", O_RDONLY};
  const auto credential = ExecPlugin(entry, {}).credential();
  ASSERT_FALSE(credential);
  expect_has(credential.error().message, "standard input is not a terminal");
  EXPECT_EQ(program.run_count(), 0);
}

TEST(TokenSource, SaysThatAPluginGivesATokenNoMore) {
  const PluginProgram program{
      R"([ $n -gt 1 ] && give '"clientCertificateData": "c", "clientKeyData": "k"' || token t)"};
  const TokenSource source = TokenSource::of_plugin(std::make_shared<ExecPlugin>(program.entry(), ExecCluster{}));
  EXPECT_EQ(source.token(), "t");
  EXPECT_TRUE(source.refuse("t"));
  const auto token = source.token();
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().kind, ErrorKind::unauthorized);
  expect_has(token.error().message, "now gives none; log in again");
}

}  // namespace
}  // namespace trainyard::kube
