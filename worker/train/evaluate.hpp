#pragma once

#include <functional>

#include "common/result.hpp"
#include "worker/data/dataset.hpp"
#include "worker/data/sampler.hpp"
#include "worker/dist/communicator.hpp"
#include "worker/include/trainyard/module.hpp"
#include "worker/observe/metric_sums.hpp"

namespace trainyard::train {

/// What the module's validation_step logs over all of `dataset`: every sample exactly once, shared out over the ranks,
/// `batch_size` at a time. The module is in training mode before and after; its parameters, buffers and the random
/// generators stay as they are. `on_batch` is called after each batch. Collective; errors of the communicator.
[[nodiscard]] Result<observe::MetricValues> evaluate(Module& module, const Dataset& dataset, std::int64_t batch_size,
                                                     dist::Communicator& communicator,
                                                     const std::function<void()>& on_batch);

}  // namespace trainyard::train
