#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/training_spec.hpp"
#include "checkpoint/format/claim.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::clean_up {

/// The job whose checkpoints are to be removed, and where they are.
struct Task {
  api::CheckpointSpec checkpoint;
  checkpoint::Identity identity;
};

/// Reads the task from the variables that contract.hpp names. ErrorKind::invalid names the variable that is missing or
/// wrong.
[[nodiscard]] Result<Task> read_task(const rank::Environment& environment);

/// Opens the store of `spec.uri`.
using OpenStore = std::function<Result<std::unique_ptr<storage::Store>>(const api::CheckpointSpec& spec)>;

/// Removes the job's checkpoints and returns how the process must end. The exit code is 0 when nothing of the job is
/// left, 93 when another try cannot help, and 96 otherwise.
[[nodiscard]] rank::RankEnd run(const rank::Environment& environment, const Clock& clock, const OpenStore& open);

}  // namespace trainyard::clean_up
