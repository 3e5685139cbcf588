#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/resource/training_spec.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/core/identity.hpp"
#include "worker/launcher/environment.hpp"
#include "worker/launcher/rank_link.hpp"

namespace trainyard::clean_up {

/// Whose checkpoints are to be removed, and where they are.
struct Task {
  resource::CheckpointSpec checkpoint;
  checkpoint::Identity identity;
};

/// From the environment that contract.hpp names. ErrorKind::invalid names what is missing or wrong.
[[nodiscard]] Result<Task> read_task(const launcher::Environment& environment);

/// Opens the place that the task names.
using OpenStore = std::function<Result<std::unique_ptr<storage::Store>>(const resource::CheckpointSpec& spec)>;

/// Does what the environment says, and gives the process's last words: exit code 0 when nothing of the job is left, 93
/// when another try cannot help, else 96.
[[nodiscard]] launcher::RankEnd run(const launcher::Environment& environment, const Clock& clock,
                                    const OpenStore& open);

}  // namespace trainyard::clean_up
