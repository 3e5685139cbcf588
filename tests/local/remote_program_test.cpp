#include "local/remote_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "common/child_program.hpp"
#include "local/process_kubelet.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::local {
namespace {

const RemoteProgram program{.host = "host2",
                            .ssh_config = "/c",
                            .working_directory = "/no/such/folder",
                            .termination_log = "/t",
                            .arguments = {"sh", "-c", "exit 3"},
                            .variables = {{"RANK", "3"}, {"TEXT", "it's\n=2"}}};

TEST(RemoteProgram, IsReadBackFromTheProcessThatStandsForIt) {
  const ProcessSpec process = process_of(program, "/bin/trainyard", {{"HOME", "/h"}});
  EXPECT_EQ(process.arguments, (std::vector<std::string>{"/bin/trainyard", "remote-process", "host2", "/c",
                                                         "/no/such/folder", "/t", "sh", "-c", "exit 3"}));
  EXPECT_EQ(process.environment, (std::vector<std::string>{"HOME=/h", "trainyard:RANK=3", "trainyard:TEXT=it's\n=2"}));
  EXPECT_EQ(parse_remote_program({process.arguments.begin() + 2, process.arguments.end()}, process.environment),
            program);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"host2", "", "/"}, {"host2", "", "/", "/t"}})
    EXPECT_EQ(parse_remote_program(words, {}).error().message,
              "remote-process is for `trainyard run -H`, which gives it a host and a program");
  const auto alone = parse_remote_program({"h", "", "/", "/t", "a"}, {"RANK=1", "trainyard:RANK", "trainyard:A="});
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->arguments, std::vector<std::string>{"a"});
  EXPECT_EQ(alone->variables, (Variables{{"A", ""}})) << "its own variables are not those of the program";
}

TEST(SshArguments, AskNobodyForAPasswordAndHoldNoVariable) {
  EXPECT_EQ(ssh_arguments(program, 12),
            (std::vector<std::string>{"ssh", "-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                                      "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-F", "/c", "--", "host2",
                                      "exec sh -c 'eval \"$(head -c 12)\"'"}));
}

TEST(SshArguments, NameNoFileWhereSshHasItsOwn) {
  RemoteProgram remote = program;
  remote.ssh_config.clear();
  const auto words = ssh_arguments(remote, 7);
  EXPECT_EQ(std::ranges::count(words, "-F"), 0);
  EXPECT_EQ(words.at(words.size() - 3), "--") << "a host's name is no option";
}

/// Runs remote scripts as the shell of a host does.
class RemoteScriptTest : public testing::Test {
 protected:
  /// The output for a program that is the shell script `text`. `input`: shell commands that write to the program's
  /// connection, as file 4, while the program runs; the connection stays open until the program has ended.
  std::string output_of(const std::string& text, const std::string& input = ":") {
    RemoteProgram remote = program;
    remote.arguments[2] = text;
    return run(remote, "(" + input + ") & (" + command(remote) + ") <fifo 4>&-; wait");
  }
  /// As output_of(), but the connection ends once the script has been read.
  std::string output_without_connection(const std::string& text) {
    RemoteProgram remote = program;
    remote.arguments[2] = text;
    return run(remote, "exec 4>&-; printf %s \"$SCRIPT\" | (" + command(remote) + ")");
  }
  std::string run(const RemoteProgram& remote, const std::string& commands) {
    const auto script = remote_script(remote, "TOKEN");
    EXPECT_TRUE(script) << script.error().message;
    const auto end = run_program(
        {"/bin/sh", "-c", "cd \"$FOLDER\" && mkfifo fifo && exec 4<>fifo && printf %s \"$SCRIPT\" >&4; " + commands},
        std::chrono::minutes{1}, {.environment = {{"SCRIPT", *script}, {"FOLDER", folder_.path()}}});
    EXPECT_TRUE(end) << end.error().message;
    return end ? end->output : "";
  }
  static std::string command(const RemoteProgram& remote) {
    return ssh_arguments(remote, remote_script(remote, "TOKEN")->size()).back();
  }

  const fakes::TemporaryFolder folder_;
};

TEST_F(RemoteScriptTest, RunsTheProgramWithItsVariablesAndTellsItsEnd) {
  EXPECT_EQ(output_of("echo \"$RANK $TEXT\"; printf why >$TRAINYARD_TERMINATION_LOG; exit 7"),
            "3 it's\n=2\nTOKEN 7 3\nwhy");
}

TEST_F(RemoteScriptTest, PassesSignalsOn) {
  EXPECT_EQ(output_of("trap 'echo stopped; exit 91' TERM; touch \"$FOLDER/up\"; while :; do sleep 0.01; done",
                      "while [ ! -e up ]; do sleep 0.01; done; echo TERM >&4"),
            "stopped\nTOKEN 91 0\n");
}

TEST_F(RemoteScriptTest, KillsTheProgramWhenTheConnectionEnds) {
  EXPECT_EQ(output_without_connection("sleep 1000"), "TOKEN 137 0\n");
}

TEST_F(RemoteScriptTest, SaysThatAProgramIsNotThere) {
  RemoteProgram remote = program;
  remote.arguments = {"no-such-program"};
  EXPECT_EQ(run(remote, "(" + command(remote) + ") <fifo 4>&-"), "TOKEN 127 0\n");
}

TEST(RemoteScript, RefusesAVariableThatAShellCannotSet) {
  for (const std::string name : {"a.b", "1A", "", "A;B"}) {
    const auto script = remote_script({.host = "h", .variables = {{name, "1"}}}, "t");
    ASSERT_FALSE(script) << name;
    EXPECT_EQ(script.error().message,
              "the variable '" + name + "' cannot be set on host h: a shell there takes letters, digits and '_' only");
  }
}

TEST(RemoteInherited, HoldsTheSettingsOfTheWorkerAndItsLibrariesAlone) {
  EXPECT_EQ(remote_inherited({{"HOME", "/h"},
                              {"NCCL_DEBUG", "INFO"},
                              {"PATH", "/bin"},
                              {"TRAINYARD_HANG_SECONDS", "9"},
                              {"GLOO_SOCKET_IFNAME", "eth0"},
                              {"TORCH_LOGS", "+all"},
                              {"OMP_NUM_THREADS", "1"},
                              {"TORCHELASTIC_RUN_ID", "r"},
                              {"MY_NCCL_DEBUG", "x"},
                              {"CUDA_VISIBLE_DEVICES", "0"}}),
            (Variables{{"GLOO_SOCKET_IFNAME", "eth0"},
                       {"NCCL_DEBUG", "INFO"},
                       {"OMP_NUM_THREADS", "1"},
                       {"TORCH_LOGS", "+all"},
                       {"TRAINYARD_HANG_SECONDS", "9"}}));
}

TEST(RemoteOutput, SeparatesOutputAndEndHoweverTheBytesCome) {
  const std::string end = "TOKEN 7 4\nwhy!";
  for (std::size_t size = 1; size < 8; ++size) {
    RemoteOutput output{"TOKEN "};
    std::string passed;
    const std::string bytes = "step 1\nTOKE half" + end;
    for (std::size_t i = 0; i < bytes.size(); i += size) {
      EXPECT_EQ(output.end(), std::nullopt);
      passed += output.take(bytes.substr(i, size));
    }
    EXPECT_EQ(passed, "step 1\nTOKE half") << size;
    EXPECT_EQ(output.end(), (RemoteEnd{.exit_code = 7, .termination_message = "why!"})) << size;
  }
}

TEST(RemoteOutput, ReadsTheEndHoweverTheHostsCounterWritesIt) {
  const auto end_of = [](const std::string& text) {
    RemoteOutput output{"TOKEN"};
    std::ignore = output.take("TOKEN" + text);
    return output.end();
  };
  EXPECT_EQ(end_of(" 143        2\nno more"), (RemoteEnd{.exit_code = 143, .termination_message = "no"}));
  EXPECT_EQ(end_of(" 0 3\na\nb"), (RemoteEnd{.exit_code = 0, .termination_message = "a\nb"}));
  EXPECT_EQ(end_of(" 0 0\n"), RemoteEnd{});
  for (const char* text : {" 0 0", " 0 \n", " x 0\n", " 0 x\n", " 0 1\n", " -1 0\n", " 0 1 2\nab"})
    EXPECT_EQ(end_of(text), std::nullopt) << text;
}

TEST(RemoteOutput, KeepsBackNothingButTheBeginningOfItsToken) {
  RemoteOutput output{"TOKEN"};
  EXPECT_EQ(output.take("50%"), "50%");
  EXPECT_EQ(output.take("TO"), "");
  EXPECT_EQ(output.take("P"), "TOP");
  EXPECT_EQ(output.end(), std::nullopt);
}

}  // namespace
}  // namespace trainyard::local
