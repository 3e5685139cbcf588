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

/// Real launchers on loopback, for tests of what they do with processes and sockets.
namespace trainyard::launcher {

/// Generous: the machine that runs the tests may have other things to do.
inline constexpr std::chrono::seconds patience{60};

/// Whether `holds` became true before patience ran out.
[[nodiscard]] bool eventually(const std::function<bool()>& holds);

/// A port of this machine that nobody listens on, and that no other test of this process was given.
[[nodiscard]] std::uint16_t free_port();

/// Whether the process exists and is no zombie.
[[nodiscard]] bool is_running(pid_t pid);

/// Ports and environment that the launchers of one group share.
struct TestGroup {
  std::int64_t world_size = 2;
  std::map<std::string, std::string> variables;  ///< For every launcher of the group.
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
  /// Its exit code, 128 + signal, or -1 when it has not ended before patience ran out.
  [[nodiscard]] int wait();
  /// All that launcher and ranks have printed.
  [[nodiscard]] std::string output() const;
  [[nodiscard]] bool has_printed(const std::string& text, int times = 1) const;
  [[nodiscard]] nlohmann::json termination_message() const;
  /// Of all descendants, living and dead-but-not-reaped, with their state letter.
  [[nodiscard]] std::map<pid_t, char> children() const;

 private:
  std::string folder_;
  pid_t pid_ = 0;
  std::optional<int> exit_code_;
};

/// A termination message but for what the first rank reported last.
[[nodiscard]] nlohmann::json without_progress(nlohmann::json message);

}  // namespace trainyard::launcher
