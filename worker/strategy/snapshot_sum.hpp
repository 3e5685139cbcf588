#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "common/result.hpp"
#include "worker/dist/host_reducer.hpp"
#include "worker/strategy/per_rank_model.hpp"

namespace trainyard::strategy {

/// Averages the parameters of all ranks while each goes on to train its own: the mean changes the parameters by what it
/// has more than the snapshot that it was made of. Parameters on a device are summed on the host, and copied to it by a
/// stream of their own. The functions are called in turn; the caller orders the two threads.
class SnapshotSum {
 public:
  /// `snapshot` and `sum` are copies of the same parameters. The first outlives the object.
  SnapshotSum(FlatParameters& snapshot, FlatParameters sum);

  /// Copies the parameters. Called by the training thread.
  void take_snapshot();
  /// Sums the snapshots of all ranks. Called by the rounds' thread. Errors: those of `reducer`. Throws what this rank's
  /// device throws.
  [[nodiscard]] Result<void> sum(dist::HostReducer& reducer);
  /// Adds to the parameters what the mean of the snapshots has more than this rank's own. Called by the training
  /// thread.
  void change_parameters(std::int64_t world_size);

 private:
  struct DeviceCopies {
    c10::Stream stream;
    c10::Event snapshot_taken;
    c10::Event sum_copied;
  };

  FlatParameters& snapshot_;
  FlatParameters sum_;
  torch::Tensor host_sum_;              // that of sum_ on the CPU, and pinned memory with a device
  std::optional<DeviceCopies> copies_;  // nothing on the CPU
};

}  // namespace trainyard::strategy
