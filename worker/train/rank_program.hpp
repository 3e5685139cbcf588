#pragma once

#include "worker/train/model_registry.hpp"

namespace trainyard::train {

/// The rank process: reads the job from the environment (contract.hpp), forms the group, trains the model that the job
/// names, and exits with a code of contract.hpp. To be called by main before any thread is started.
[[noreturn]] void run_rank(const ModelRegistry& models);

}  // namespace trainyard::train
