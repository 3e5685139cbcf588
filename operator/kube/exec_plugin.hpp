#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/exec_credential.hpp"
#include "operator/kube/exec_entry.hpp"

namespace trainyard::kube {

/// Whether the plugin may talk to a person. ErrorKind::unauthorized when it must and there is none.
[[nodiscard]] Result<bool> decide_interactive(InteractiveMode mode, bool has_terminal);

/// The program that `command` means: itself if it is a path, else the first of that name in the folders of
/// `search_path` (as $PATH; those that are not absolute are passed over). No value: there is none that may be run.
[[nodiscard]] std::optional<std::filesystem::path> find_program(const std::string& command,
                                                                std::string_view search_path);

struct ExecPluginOptions {
  std::chrono::milliseconds deadline{60'000};
  std::chrono::milliseconds interactive_deadline{600'000};  ///< A person logs in meanwhile.
};

/// A credential plugin, as client-go knows them: runs the program, and keeps what it gave in memory. Any thread may
/// call; one of them at a time runs the program, and the others wait for what that gives.
class ExecPlugin {
 public:
  ExecPlugin(ExecEntry entry, ExecCluster cluster, ExecPluginOptions options = {},
             std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>());

  /// What it gave last, or gives now if that has expired or was refused. ErrorKind::unauthorized says what the program
  /// did instead, in the words that it wrote for people and never in what it printed; timeout and unavailable may pass.
  [[nodiscard]] Result<ExecCredential> credential();

  /// The server does not take `token`, whatever its expiry: the program is to be run again.
  void refuse(std::string_view token);

 private:
  [[nodiscard]] Result<ExecCredential> run() const;

  const ExecEntry entry_;
  const ExecCluster cluster_;
  const ExecPluginOptions options_;
  const std::shared_ptr<const Clock> clock_;
  std::mutex mutex_;  // guards all below
  std::condition_variable ended_;
  std::optional<Result<ExecCredential>> last_;  // Of the last run.
  Time renewal_time_{};
  bool is_refused_ = false;  // By the server.
  bool is_running_ = false;
  std::uint64_t run_count_ = 0;
};

}  // namespace trainyard::kube
