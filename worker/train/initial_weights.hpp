#pragma once

#include <string>

#include "checkpoint/group/communicator.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "include/trainyard/module.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/checkpointer.hpp"

namespace trainyard::train {

/// Where a model's weights are, and how to reach them.
struct WeightsSource {
  std::string uri;
  std::string sha256;  ///< Checksum of the file, 64 hexadecimal digits. Empty: it is not checked.
  storage::S3Options s3;
};

/// Loads the weights of `source` into the model's tensors in `state`, on rank 0 alone: the caller sends them to the
/// other ranks. Optimizer and random generators stay unchanged. A storage that fails is retried within `patience`.
/// Collective: all ranks return rank 0's result. Errors: those of load_weights(); cancelled when the group is broken.
[[nodiscard]] Result<void> load_initial_weights(const WeightsSource& source, const Module& module,
                                                const checkpoint::State& state, checkpoint::Communicator& communicator,
                                                const checkpoint::StartPatience& patience, const Clock& clock);

}  // namespace trainyard::train
