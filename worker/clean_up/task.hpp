#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/training_spec.hpp"
#include "checkpoint/format/identity.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::clean_up {

/// Whose checkpoints are to be removed, and where they are.
struct Task {
  api::CheckpointSpec checkpoint;
  checkpoint::Identity identity;
};

/// From the environment that contract.hpp names. ErrorKind::invalid names what is missing or wrong.
[[nodiscard]] Result<Task> read_task(const rank::Environment& environment);

/// Opens the place that the task names.
using OpenStore = std::function<Result<std::unique_ptr<storage::Store>>(const api::CheckpointSpec& spec)>;

/// Does what the environment says, and gives the process's last words: exit code 0 when nothing of the job is left, 93
/// when another try cannot help, else 96.
[[nodiscard]] rank::RankEnd run(const rank::Environment& environment, const Clock& clock, const OpenStore& open);

}  // namespace trainyard::clean_up
