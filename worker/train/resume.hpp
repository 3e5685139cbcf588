#pragma once

#include <cstdint>
#include <optional>

#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/train/training_state.hpp"

namespace trainyard::train {

/// Where a run goes on.
struct Resumed {
  checkpoint::Restored from;
  TrainingValues values;
};

struct ResumeOptions {
  std::int64_t training_samples = 0;  ///< Of the training set.
  bool is_rank0 = false;              ///< Whether this rank writes the log lines.
};

/// Loads what `checkpointer` finds into `state`'s tensors; nothing: there was nothing to go on from. Collective. Errors
/// are the checkpointer's; corrupt when the values are not this worker's, and invalid when their position is not in an
/// epoch of this training set.
[[nodiscard]] Result<std::optional<Resumed>> resume(checkpoint::Checkpointer& checkpointer, checkpoint::State& state,
                                                    const ResumeOptions& options);

/// Says where the run goes on, and what another number of ranks means for it.
void log_resumed(const checkpoint::Restored& from, std::int64_t world_size);

}  // namespace trainyard::train
