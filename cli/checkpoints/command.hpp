#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/checkpoints/actions.hpp"

namespace trainyard::cli {

/// `trainyard checkpoints` and its commands. Must outlive the app that it is declared in.
class CheckpointsCommand {
 public:
  /// Adds it to `app`.
  CLI::App* declare(CLI::App& app);
  /// True if the parsed command writes files. It removes unfinished ones when it is stopped.
  [[nodiscard]] bool makes_files() const;
  /// Runs the parsed command until it is done or `is_stopped` is true. Returns the exit code.
  [[nodiscard]] int run(std::function<bool()> is_stopped);

 private:
  CheckpointsOptions options_;
  CLI::App* command_ = nullptr;  // The app owns it.
};

}  // namespace trainyard::cli
