#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "api/training_job.hpp"
#include "cli/cluster_access.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

struct LogsOptions {
  std::string job;
  std::int64_t rank = 0;
  std::optional<std::int64_t> attempt;  ///< Absent: the newest.
  bool is_following = false;
  std::string folder;  ///< The folder of a run on this machine; empty: trainyard-runs/<job>, if that exists.
  ClusterChoice cluster;
};

/// `trainyard logs JOB`: prints what a rank wrote. Looks for a run on this machine first, then asks the cluster that
/// kubectl would ask. Returns the exit code.
[[nodiscard]] int print_logs(const LogsOptions& options);

enum class LogAction { print, wait, end };

/// The next action of `trainyard logs` for a job in a cluster. `printed` is the last attempt whose log was printed (0:
/// none); `wanted` is the attempt that the user named. Without `wanted`, a job that is followed is printed attempt
/// after attempt until it comes to rest. Pure.
[[nodiscard]] LogAction next_log_action(const api::TrainingJobStatus& status, std::optional<std::int64_t> wanted,
                                        std::int64_t printed, bool is_following);

/// Passes to `print` what a rank wrote in the newest run of `folder`, in the attempt that `options` name or else in the
/// newest. Following continues until the run ends, through all attempts if none is named, and waits for a log that does
/// not exist yet. The message of ErrorKind::not_found lists what exists.
[[nodiscard]] Result<void> print_local_logs(const LogsOptions& options, const std::filesystem::path& folder,
                                            const std::function<void(std::string_view)>& print);

}  // namespace trainyard::cli
