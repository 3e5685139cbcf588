#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

/// Real launchers on loopback, for tests of their processes and sockets.
namespace trainyard::launcher {

class LauncherProcess;

/// Generous, because the machine that runs the tests may be busy.
inline constexpr std::chrono::seconds patience{60};

/// True once `holds` is true; false when it is not within `patience`.
[[nodiscard]] bool eventually(const std::function<bool()>& holds);

/// A free port of this machine, which no other test of this process gets.
[[nodiscard]] std::uint16_t free_port();

/// The process of a rank that `launcher` has started; 0: it has not yet.
[[nodiscard]] pid_t pid_of_rank(const LauncherProcess& launcher, std::int64_t rank);

/// True when the process exists and is not a zombie.
[[nodiscard]] bool is_running(pid_t pid);

/// Ports and environment that the launchers of one group share.
struct TestGroup {
  std::int64_t world_size = 2;
  std::map<std::string, std::string> variables;  ///< For every launcher of the group.
  /// Bash that runs in place of the store program. The ranks of most tests form no group, so that a program that only
  /// stays alive will do.
  std::string store_script = "exec sleep 1000";
  /// A program that becomes the launcher itself, in place of trainyard-worker with the scripts of rank and store.
  std::string program = {};
  std::uint16_t store_port = free_port();
  std::uint16_t peer_port = free_port();
};

/// One running trainyard-worker. Killed, with its ranks, when it goes out of scope.
class LauncherProcess {
 public:
  /// `rank_script`: bash that each rank process runs; $LINKED_RANK is a program that uses its link
  /// (linked_rank_main.cpp).
  LauncherProcess(const TestGroup& group, std::int64_t rank, const std::string& rank_script,
                  const std::map<std::string, std::string>& more_variables = {});
  ~LauncherProcess();
  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Makes an empty file beside the termination log, for scripts that wait for it.
  void touch(const std::string& name) const;
  void send_signal(int signal) const;
  /// The launcher's exit code, 128 + signal, or -1 when it has not ended within `patience`.
  [[nodiscard]] int wait();
  /// The output of the launcher and its ranks.
  [[nodiscard]] std::string output() const;
  [[nodiscard]] bool has_printed(const std::string& text, int times = 1) const;
  [[nodiscard]] nlohmann::json termination_message() const;
  /// All descendants, living or not reaped, with their state letter.
  [[nodiscard]] std::map<pid_t, char> children() const;

 private:
  std::string folder_;
  pid_t pid_ = 0;
  std::optional<int> exit_code_;
};

/// A termination message without the first rank's last report.
[[nodiscard]] nlohmann::json without_progress(nlohmann::json message);

}  // namespace trainyard::launcher
