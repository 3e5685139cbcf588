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

namespace trainyard::kube {

/// True when the plugin may ask the user. ErrorKind::unauthorized if it must and there is no terminal.
[[nodiscard]] Result<bool> decide_interactive(InteractiveMode mode, bool has_terminal);

/// The program for `command`: the path itself if it is one, else the first of that name in the folders of `search_path`
/// (like $PATH; relative folders are ignored). Empty if no such program may be run.
[[nodiscard]] std::optional<std::filesystem::path> find_program(const std::string& command,
                                                                std::string_view search_path);

struct ExecPluginOptions {
  std::chrono::milliseconds deadline{60'000};
  std::chrono::milliseconds interactive_deadline{600'000};  ///< When a user logs in meanwhile.
};

/// A credential plugin in the sense of client-go: runs the program, and keeps its answer in memory. Any thread may
/// call; one thread at a time runs the program, and the others wait for its result.
class ExecPlugin {
 public:
  ExecPlugin(ExecEntry entry, ExecCluster cluster, ExecPluginOptions options = {},
             std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>());

  /// The last credential; runs the program if that has expired or was refused. ErrorKind::unauthorized says how the
  /// program failed, with its standard error and never its standard output; timeout and unavailable may pass.
  [[nodiscard]] Result<ExecCredential> credential();

  /// Records that the server refused `token`, so that the program runs again before `token` expires.
  void refuse(std::string_view token);

 private:
  [[nodiscard]] Result<ExecCredential> run() const;

  const ExecEntry entry_;
  const ExecCluster cluster_;
  const ExecPluginOptions options_;
  const std::shared_ptr<const Clock> clock_;
  std::mutex mutex_;  // guards all below
  std::condition_variable ended_;
  std::optional<Result<ExecCredential>> last_;  // Outcome of the last run.
  Time renewal_time_{};
  bool is_refused_ = false;  // by the server
  bool is_running_ = false;
  std::uint64_t run_count_ = 0;
};

}  // namespace trainyard::kube
