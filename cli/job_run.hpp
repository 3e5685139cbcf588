#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/training_job.hpp"
#include "cli/console.hpp"
#include "cli/log_tail.hpp"
#include "cli/run_folder.hpp"
#include "cli/stop_signals.hpp"
#include "local/process_kubelet.hpp"

namespace trainyard::cli {

struct JobRunOptions {
  local::ProcessKubeletOptions kubelet;
  std::vector<FollowedLog> shown_logs;  ///< Ranks' output to show while it is written.
  bool is_quiet = false;  ///< Show only the ranks' output, restarts and failures, without phases and summary.
};

/// The consoles of a run; several may be the same one.
struct RunConsoles {
  Console& messages;  ///< Our own messages.
  Console& output;    ///< The ranks' standard output, or their whole output where both streams share a log.
  Console& error;     ///< The ranks' standard error.
};

/// Runs one TrainingJob on this machine to its end, and prints its progress on `consoles`. `job` must be valid for this
/// machine (local_job.hpp). The first of `signals` suspends the job: its ranks save and end within their grace period.
/// The second kills them. Returns the exit code: 0 succeeded, 1 failed, 128 + signal if it was stopped.
[[nodiscard]] int run_job(const nlohmann::json& job, const RunFolder& folder, JobRunOptions options,
                          RunConsoles consoles, const StopSignals& signals);

/// The checkpoint under `uri` from which a run would resume, if `uri` is a folder of this machine (file://). Empty:
/// there is none, `uri` is other storage, or it cannot be read. A job's status may lack it: the ranks report nothing
/// after their last save. `job_uid`: the only job whose checkpoints count; empty: those of all jobs do.
[[nodiscard]] std::optional<api::CheckpointStatus> newest_checkpoint(const std::string& uri,
                                                                     std::string_view job_uid = {});

}  // namespace trainyard::cli
