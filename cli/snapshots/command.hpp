#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/snapshots/actions.hpp"

namespace trainyard::cli {

/// `trainyard snapshots`, with its own commands. Outlives the app that it is declared in.
class SnapshotsCommand {
 public:
  /// Adds it to `app`.
  CLI::App* declare(CLI::App& app);
  /// Whether what was parsed makes files, which it takes away again when it is stopped.
  [[nodiscard]] bool makes_files() const;
  /// Runs what the parsed command line says until `is_stopped`. Gives the exit code.
  [[nodiscard]] int run(std::function<bool()> is_stopped);

 private:
  SnapshotsOptions options_;
  CLI::App* command_ = nullptr;  // The app owns it.
};

}  // namespace trainyard::cli
