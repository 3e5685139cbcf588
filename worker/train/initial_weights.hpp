#pragma once

#include <string>

#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/dist/communicator.hpp"
#include "worker/include/trainyard/module.hpp"

namespace trainyard::train {

/// Loads the weights at `uri` into the tensors of `state`, which is `module`'s, on rank 0 alone: the others' are as
/// they were, and get them from there. Optimizer and random generators stay. Collective: success, or rank 0's error, is
/// every rank's. Errors: those of load_weights(); cancelled when the ranks have lost each other.
[[nodiscard]] Result<void> load_initial_weights(const std::string& uri, const storage::S3Options& s3,
                                                const Module& module, const checkpoint::State& state,
                                                dist::Communicator& communicator);

}  // namespace trainyard::train
