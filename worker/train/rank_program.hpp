#pragma once

#include "worker/train/model_registry.hpp"

namespace trainyard::train {

/// The rank process: reads the job from the environment (contract.hpp), meets the other ranks, trains the model that
/// the job names, and ends the process with a typed exit code. Called by main before any thread is started.
[[noreturn]] void run_rank(const ModelRegistry& models);

}  // namespace trainyard::train
