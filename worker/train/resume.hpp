#pragma once

#include <cstdint>
#include <optional>

#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/train/training_state.hpp"

namespace trainyard::train {

/// The checkpoint that a run resumes from.
struct Resumed {
  checkpoint::Restored from;
  TrainingValues values;
};

struct ResumeOptions {
  std::int64_t training_samples = 0;  ///< Size of the training set.
  bool is_rank0 = false;              ///< Rank 0 writes the log lines.
};

/// Loads the checkpoint that `checkpointer` finds into the tensors of `state`; nothing: there is no checkpoint.
/// Collective. Errors: the checkpointer's; corrupt when the values are not this worker's; invalid when their position
/// is not in an epoch of this training set.
[[nodiscard]] Result<std::optional<Resumed>> resume(checkpoint::Checkpointer& checkpointer, checkpoint::State& state,
                                                    const ResumeOptions& options);

/// Logs the checkpoint that the run resumes from, and what a different number of ranks changes.
void log_resumed(const checkpoint::Restored& from, std::int64_t world_size);

}  // namespace trainyard::train
