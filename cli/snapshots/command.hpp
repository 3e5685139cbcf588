#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>

#include "cli/checkpoints/reading.hpp"
#include "cli/text/output.hpp"
#include "storage/store.hpp"

/// The commands of `trainyard snapshots`. Each returns the exit code: 0 done, 1 failed or damage found, 2 wrong usage.

namespace trainyard::cli {

struct SnapshotsOptions {
  std::string uri;  ///< A prefix, as in checkpoint.uri.
  storage::S3Options s3;
  std::int64_t step = 0;                                    ///< get
  OutputFormat format = OutputFormat::text;                 ///< ls, history
  std::string target;                                       ///< get: the folder. Empty: snapshot-STEP.
  std::function<bool()> is_stopped = [] { return false; };  ///< Called before each read.
};

[[nodiscard]] int list_snapshots(const SnapshotsOptions& options, const Streams& streams);
[[nodiscard]] int get_snapshot(const SnapshotsOptions& options, const Streams& streams);
[[nodiscard]] int print_history(const SnapshotsOptions& options, const Streams& streams);

/// `trainyard snapshots` and its commands. Must outlive the app that it is declared in.
class SnapshotsCommand {
 public:
  /// Adds it to `app`.
  CLI::App* declare(CLI::App& app);
  /// True if the parsed command writes files. It removes unfinished ones when it is stopped.
  [[nodiscard]] bool makes_files() const;
  /// Runs the parsed command until it is done or `is_stopped` is true. Returns the exit code.
  [[nodiscard]] int run(std::function<bool()> is_stopped);

 private:
  SnapshotsOptions options_;
  CLI::App* command_ = nullptr;  // The app owns it.
};

}  // namespace trainyard::cli
