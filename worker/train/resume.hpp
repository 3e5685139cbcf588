#pragma once

#include <cstdint>
#include <optional>

#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/data/sampling.hpp"
#include "worker/train/schedule.hpp"
#include "worker/train/training_state.hpp"

namespace trainyard::train {

/// The checkpoint that a run resumes from.
struct Resumed {
  checkpoint::Restored from;
  TrainingValues values;
};

struct ResumeOptions {
  data::Sampling sampling;                   ///< Sampling of this run, unless it has `streams`.
  const IterableDataset* streams = nullptr;  ///< Not nullptr: the run trains on these.
  std::int64_t world_size = 1;               ///< Number of ranks of this run.
  bool is_rank0 = false;                     ///< Rank 0 writes the log lines.
};

/// The position in this run's epochs at which training goes on after the checkpoint `from` with `values`. It is that of
/// the checkpoint, unless ranks with orders of their own have another number now: each rank then goes on after as large
/// a part of its order as was done. ErrorKind::invalid when an epoch was begun whose size this run's epochs do not
/// have, or, with streams, by another number of ranks, unless they are interleaved. Pure.
[[nodiscard]] Result<Position> position_to_resume(const checkpoint::Restored& from, const TrainingValues& values,
                                                  const ResumeOptions& options);

/// Loads the checkpoint that `checkpointer` finds into the tensors of `state`; nothing: there is no checkpoint.
/// Collective. Errors: the checkpointer's; corrupt when the values are not this worker's; those of
/// position_to_resume().
[[nodiscard]] Result<std::optional<Resumed>> resume(checkpoint::Checkpointer& checkpointer, checkpoint::State& state,
                                                    const ResumeOptions& options);

/// Logs the checkpoint that the run resumes from, and what a different number of ranks changes.
void log_resumed(const checkpoint::Restored& from, const ResumeOptions& options);

}  // namespace trainyard::train
