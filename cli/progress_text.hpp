#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "api/training_job.hpp"
#include "common/clock.hpp"

/// Texts about a running job: pure functions of its status.
namespace trainyard::cli {

/// A line for each attempt before `after.attempt` that has ended since `before`: rank, exit code, message and log. The
/// last attempt has no line, since summary_of() describes its end; an attempt that ended by suspension has none either.
/// `before` may be several attempts older, since a watch may skip statuses.
/// `hosts`: the machine of each rank, which the line names too; empty: all ranks are on this machine.
[[nodiscard]] std::vector<std::string> ended_attempt_lines(const api::TrainingJobStatus& before,
                                                           const api::TrainingJobStatus& after,
                                                           const std::filesystem::path& logs,
                                                           const std::vector<std::string>& hosts = {});

/// A line on the phase of `after`, if phase, reason or attempt have changed. Empty otherwise, and for the phases that
/// summary_of() describes.
[[nodiscard]] std::string phase_line(const api::TrainingJobStatus& before, const api::TrainingJobStatus& after);

/// A line on the requested checkpoint, once it is saved or has failed. Else empty.
[[nodiscard]] std::string request_line(const api::TrainingJobStatus& before, const api::TrainingJobStatus& after);

/// "epoch 2/3  step 512/900  loss 0.4120  2,310 samples/s  ETA 41s  checkpoint 400"; empty before the first step. As
/// long as a worker of ours has reported only its first step: "first loss 2.3188".
[[nodiscard]] std::string progress_line(const api::TrainingJob& job, Time now);

struct Outcome {
  std::filesystem::path logs;
  std::chrono::milliseconds took{};
  std::string worker_message;        ///< The end message of rank 0; empty: none.
  bool is_already_complete = false;  ///< The ranks found that nothing was left to train.
  /// The job is a command of --nproc: a failure is described with options instead of fields, and no log file is named,
  /// since each rank has two.
  bool is_command = false;
  std::vector<std::string> hosts;  ///< As for ended_attempt_lines().
};
/// Lines on how the job ended and where its checkpoints and logs are.
[[nodiscard]] std::vector<std::string> summary_of(const api::TrainingJob& job, const Outcome& outcome);

/// A line that says with what the next `trainyard run` of a stopped job begins; empty for a job without checkpoints.
/// Each run is a job of its own, so that a job with checkpoint.resume: none begins afresh.
[[nodiscard]] std::string next_run_line(const api::TrainingJob& job);

/// `text`, which may hold the end of a log, as one line of at most 600 bytes or so without control characters.
[[nodiscard]] std::string one_line(const std::string& text);
/// `uri` without file://.
[[nodiscard]] std::string plain_path(const std::string& uri);

/// "41s", "3m05s", "2h05m"
[[nodiscard]] std::string format_span(std::chrono::milliseconds span);
/// "12,345"
[[nodiscard]] std::string format_count(double count);

}  // namespace trainyard::cli
