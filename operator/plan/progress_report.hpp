#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/training_job.hpp"
#include "common/clock.hpp"

namespace trainyard::plan {

/// Rank 0's answer to the last poll, or its termination message: the fields of `/status` (api/contract.hpp) that reach
/// the job's status.
struct ProgressReport {
  std::int64_t attempt =
      0;  ///< The attempt that reported. Reports of another attempt than the current one are not used.
  std::optional<std::int64_t> epoch;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> total_steps;
  std::optional<double> loss;  ///< As reported: may be NaN or infinite.
  std::optional<double> accuracy;
  std::optional<double> samples_per_second;
  std::optional<Time> estimated_end;
  std::optional<api::CheckpointStatus> checkpoint;
  std::string checkpoint_error;  ///< Why the last save failed while training continues; empty if it did not fail.
  std::string waiting_for;       ///< Rank 0's words for what it waits for before training begins.
  /// Known requests for checkpoints: rank 0's own request record, and its answer to the operator's last request.
  std::vector<api::CheckpointRequest> requests;
  /// Why rank 0 has not answered for so long that the user should know; the fields above are then its last answer.
  /// Empty: rank 0 answers.
  std::string unavailable_because;
  bool operator==(const ProgressReport&) const = default;
};

/// Reads the report in `object`, received at `now`. Null means a number that is not finite. Ignores fields of
/// another type than the contract's, and times and URIs that the status cannot hold; cuts long texts
/// (conditions.hpp). So the API server accepts the resulting status, whatever a worker writes.
[[nodiscard]] ProgressReport read_progress_report(const nlohmann::json& object, std::int64_t attempt, Time now);

/// Reads a `checkpointRequest` of the contract, within the same bounds; empty if it is malformed.
[[nodiscard]] std::optional<api::CheckpointRequest> read_request_record(const nlohmann::json& record);

}  // namespace trainyard::plan
