#include "launcher_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/paths/paths.hpp"
#include "worker/launcher/process.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::launcher {
namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

void write_script(const std::string& path, const std::string& text) {
  std::ofstream{path} << "#!/bin/bash\n" << text << "\n";
  fs::permissions(path, fs::perms::owner_all);
}

}  // namespace

bool eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

std::uint16_t free_port() {
  // Below the range of ports that the kernel gives to connections. Test processes that run at the same time begin at
  // different ports.
  static std::atomic<unsigned> next{static_cast<unsigned>(getpid()) * 37U};
  while (true) {
    const auto port = static_cast<std::uint16_t>(16'000U + next++ % 16'000U);
    if (rank::listen_on(rank::Reach::everywhere, port, "a test")) return port;
  }
}

bool is_running(pid_t pid) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", pid));
  const auto end = stat.rfind(')');
  return end != std::string::npos && stat[end + 2] != 'Z';
}

pid_t pid_of_rank(const LauncherProcess& launcher, std::int64_t rank) {
  const std::string mark = "rank started  rank=" + std::to_string(rank) + "  pid=";
  const std::string output = launcher.output();
  const auto position = output.find(mark);
  return position == std::string::npos ? 0 : std::stoi(output.substr(position + mark.size()));
}

LauncherProcess::LauncherProcess(const TestGroup& group, std::int64_t rank, const std::string& rank_script,
                                 const std::map<std::string, std::string>& more_variables) {
  static std::atomic<int> count{0};
  folder_ = fmt::format("{}launcher-{}-{}", testing::TempDir(), getpid(), count++);
  fs::create_directories(folder_);
  write_script(folder_ + "/rank", rank_script);
  write_script(folder_ + "/store", group.store_script);

  std::map<std::string, std::string> variables{{"PATH", "/usr/bin:/bin"},
                                               {"LINKED_RANK", paths::build("tests/worker/launcher/linked_rank")},
                                               {"RANK", std::to_string(rank)},
                                               {"WORLD_SIZE", std::to_string(group.world_size)},
                                               {"MASTER_ADDR", "127.0.0.1"},
                                               {"TRAINYARD_JOB", "test"},
                                               {"TRAINYARD_STORE_PORT", std::to_string(group.store_port)},
                                               {"TRAINYARD_PEER_PORT", std::to_string(group.peer_port)},
                                               {"TRAINYARD_TERMINATION_LOG", folder_ + "/termination-log"}};
  for (const auto& [name, value] : group.variables) variables[name] = value;
  for (const auto& [name, value] : more_variables) variables[name] = value;
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  // The launcher inherits nothing, so the settings of the sanitizers and of scripts/mutate are handed on.
  for (const char* name : {"TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS", "MUTATION_ACTIVE", "MUTATION_REACHED"}) {
    if (const char* value = getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
  }

  const std::string program = group.program.empty()
                                  ? fmt::format("{0} --rank-program {1}/rank --store-program {1}/store",
                                                paths::program("trainyard-worker"), folder_)
                                  : group.program;
  const std::string command = fmt::format("exec {} >{}/output 2>&1", program, folder_);
  const auto started =
      start({.path = "/bin/sh", .arguments = {"-c", command}, .environment = environment, .inherited_file = {}});
  if (!started) throw std::runtime_error(started.error().message);
  pid_ = *started;
}

LauncherProcess::~LauncherProcess() {
  // The kernel kills its ranks and its store with it.
  if (!exit_code_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (testing::Test::HasFailure()) std::printf("--- output of launcher %d\n%s\n", pid_, output().c_str());
  fs::remove_all(folder_);
}

void LauncherProcess::touch(const std::string& name) const {
  std::ofstream{folder_ + "/" + name};
}

void LauncherProcess::send_signal(int signal) const {
  kill(pid_, signal);
}

int LauncherProcess::wait() {
  if (exit_code_) return *exit_code_;
  int status = 0;
  const bool has_ended = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!has_ended) return -1;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return *exit_code_;
}

std::string LauncherProcess::output() const {
  return read_file(folder_ + "/output");
}

bool LauncherProcess::has_printed(const std::string& text, int times) const {
  const std::string printed = output();
  std::size_t place = printed.find(text);
  while (--times > 0 && place != std::string::npos) place = printed.find(text, place + text.size());
  return place != std::string::npos;
}

nlohmann::json LauncherProcess::termination_message() const {
  return nlohmann::json::parse(read_file(folder_ + "/termination-log"), nullptr, false);
}

std::map<pid_t, char> LauncherProcess::children() const {
  std::map<pid_t, std::pair<pid_t, char>> parents;
  for (const auto& entry : fs::directory_iterator{"/proc"}) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // "pid (command) state parent ...": the command may contain anything, so that the parser begins after the last
    // parenthesis.
    const std::string stat = read_file(entry.path().string() + "/stat");
    const auto end = stat.rfind(')');
    if (end == std::string::npos || end + 4 >= stat.size()) continue;
    parents[std::stoi(name)] = {std::stoi(stat.substr(end + 4)), stat[end + 2]};
  }
  std::map<pid_t, char> found;
  std::vector<pid_t> look{pid_};
  while (!look.empty()) {
    const pid_t parent = look.back();
    look.pop_back();
    for (const auto& [pid, of] : parents) {
      if (of.first != parent) continue;
      found[pid] = of.second;
      look.push_back(pid);
    }
  }
  return found;
}

nlohmann::json without_progress(nlohmann::json message) {
  message.erase("progress");
  return message;
}

}  // namespace trainyard::launcher
