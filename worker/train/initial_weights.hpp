#pragma once

#include <string>

#include "checkpoint/group/communicator.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/train/module.hpp"

namespace trainyard::train {

/// Where a model's weights are, and how to get them.
struct WeightsSource {
  std::string uri;
  std::string sha256;  ///< Of the file, as 64 hexadecimal digits. Empty: any bytes will do.
  storage::S3Options s3;
};

/// Loads the weights of `source` into the tensors of `state`, which is `module`'s, on rank 0 alone: the others' are as
/// they were, and get them from there. Optimizer and random generators stay. Collective: success, or rank 0's error, is
/// every rank's. A storage that fails is tried again within `patience`. Errors: those of load_weights(); cancelled when
/// the ranks have lost each other.
[[nodiscard]] Result<void> load_initial_weights(const WeightsSource& source, const Module& module,
                                                const checkpoint::State& state, checkpoint::Communicator& communicator,
                                                const checkpoint::StartPatience& patience, const Clock& clock);

}  // namespace trainyard::train
