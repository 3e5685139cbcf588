#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/output_follower.hpp"
#include "cli/run_folder.hpp"
#include "cli/stop_signals.hpp"
#include "local/process_kubelet.hpp"

namespace trainyard::cli {

struct JobRunOptions {
  local::ProcessKubeletOptions kubelet;
  std::vector<FollowedLog> shown_logs;  ///< Output of ranks that is shown as it comes.
  bool is_quiet = false;  ///< Only the ranks' output, restarts and failures: no phases, no summary of success.
};

/// Where things are shown; several may be the same one.
struct RunConsoles {
  Console& words;   ///< What we tell.
  Console& output;  ///< The ranks' standard output, and their logs where the streams are not apart.
  Console& error;
};

/// Runs one TrainingJob on this machine to its end, and tells how it goes on `consoles`.
/// The first of `signals` suspends the job: ranks save and end within their grace period. The second kills them. Gives
/// the exit code: 0 succeeded, 1 failed, 128 + signal when it was stopped. `job` is valid for this machine
/// (local_job.hpp).
[[nodiscard]] int run_job(const nlohmann::json& job, const RunFolder& folder, JobRunOptions options,
                          RunConsoles consoles, const StopSignals& signals);

}  // namespace trainyard::cli
