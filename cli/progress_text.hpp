#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "api/training_job.hpp"
#include "common/clock.hpp"

/// What a person is told of a running job: pure functions of its status.
namespace trainyard::cli {

/// How the attempt of `before` ended, when `after` is of another and somebody caused it: who, how, and the log. Else
/// empty.
[[nodiscard]] std::string ended_attempt_line(const api::TrainingJobStatus& before, const api::TrainingJobStatus& after,
                                             const std::filesystem::path& logs);

/// The phase of `after` in words when it is another than before, or its reason is. Empty: no news, or an end, which is
/// the summary's.
[[nodiscard]] std::string phase_line(const api::TrainingJobStatus& before, const api::TrainingJobStatus& after);

/// What became of the checkpoint that was asked for, once that is known. Else empty.
[[nodiscard]] std::string request_line(const api::TrainingJobStatus& before, const api::TrainingJobStatus& after);

/// "epoch 2/3  step 512/900  loss 0.4120  2,310 samples/s  ETA 41s  checkpoint 400"; empty before the first step. A
/// worker of ours that has logged no more than its first step reports that step's loss: "first loss 2.3188".
[[nodiscard]] std::string progress_line(const api::TrainingJob& job, Time now);

struct Outcome {
  std::filesystem::path logs;
  std::chrono::milliseconds took{};
  std::string worker_message;        ///< What rank 0 said at its end; empty: nothing.
  bool is_already_complete = false;  ///< The ranks found that nothing was left to train.
  /// A command of --nproc: its failure is described by the names of its options, and only the folder of its logs is
  /// named, since each rank has two files there.
  bool is_command = false;
};
/// What the job came to and where its things are, a line each.
[[nodiscard]] std::vector<std::string> summary_of(const api::TrainingJob& job, const Outcome& outcome);

/// `text`, which may hold the end of a log, as one line of at most 600 bytes or so without control characters.
[[nodiscard]] std::string one_line(const std::string& text);
/// `uri` without file://, since people type folders.
[[nodiscard]] std::string plain_path(const std::string& uri);

/// "41s", "3m05s", "2h05m"
[[nodiscard]] std::string format_span(std::chrono::milliseconds span);
/// "12,345"
[[nodiscard]] std::string format_count(double count);

}  // namespace trainyard::cli
