#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::fakes {

/// A rank program that runs as a process with the rank environment but without a launcher. The destructor kills it.
class RankProcess {
 public:
  using Variables = std::map<std::string, std::string>;

  /// Standard error goes to `log_file`.
  RankProcess(const std::string& program, const Variables& variables, std::string log_file)
      : log_file_{std::move(log_file)} {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    std::vector<std::string> words;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string word{*variable};
      if (!variables.contains(word.substr(0, word.find('=')))) words.push_back(word);
    }
    for (const auto& [name, value] : variables) words.push_back(name + "=" + value);
    std::vector<char*> environment;
    for (std::string& word : words) environment.push_back(word.data());
    environment.push_back(nullptr);
    std::string path = program;
    char* const arguments[] = {path.data(), nullptr};
    if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environment.data()) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess(RankProcess&& other) noexcept
      : pid_{std::exchange(other.pid_, -1)}, log_file_{std::move(other.log_file_)} {}
  ~RankProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// Signals only this process: kill() with pid -1 would signal every process.
  void send(int signal) const {
    if (pid_ > 0) ::kill(pid_, signal);
  }
  [[nodiscard]] bool is_started() const { return pid_ > 0; }
  /// The exit code, or 128 + the signal that ended it. -1 when it could not be started.
  int wait() {
    if (pid_ <= 0) return -1;
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] std::string log() const {
    std::ifstream in{log_file_};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

 private:
  pid_t pid_ = -1;
  std::string log_file_;
};

}  // namespace trainyard::fakes
