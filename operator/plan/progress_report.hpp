#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/training_job.hpp"
#include "common/clock.hpp"

namespace trainyard::plan {

/// What rank 0 of a job answered when it was last polled, or wrote when it ended: the parts of `/status`
/// (api/contract.hpp) that reach the job's status.
struct ProgressReport {
  std::int64_t attempt = 0;  ///< Whose it is. Reports of another attempt than the current one are not used.
  std::optional<std::int64_t> epoch;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> total_steps;
  std::optional<double> loss;  ///< As reported: may be NaN or infinite.
  std::optional<double> accuracy;
  std::optional<double> samples_per_second;
  std::optional<Time> estimated_end;
  std::optional<api::CheckpointStatus> checkpoint;
  std::string checkpoint_error;  ///< Why the last save failed while training goes on; empty: it did not.
  std::string waiting_for;       ///< What rank 0 says it waits for before training begins.
  /// What is known of checkpoints that were asked for: rank 0's own record, and its answer when it was asked last.
  std::vector<api::CheckpointRequest> requests;
  /// Why rank 0 has not answered for long enough to be told to the user; what stands above is then its last answer.
  /// Empty: it answers.
  std::string unavailable_because;
  bool operator==(const ProgressReport&) const = default;
};

/// The report in a JSON object with the contract's field names, received at `now`. Null stands for a number that is not
/// finite. Fields of a type other than the contract's count as absent, and so do times and URIs that the status cannot
/// hold; texts that are too long are cut (bounded_text.hpp). So whatever a worker writes, the API server accepts the
/// status that is made of it.
[[nodiscard]] ProgressReport read_progress_report(const nlohmann::json& object, std::int64_t attempt, Time now);

/// The `checkpointRequest` in a JSON object with the contract's field names, within the same bounds; empty where it is
/// malformed.
[[nodiscard]] std::optional<api::CheckpointRequest> read_request_record(const nlohmann::json& record);

}  // namespace trainyard::plan
