#pragma once

#include <memory>

#include "api/training_spec.hpp"
#include "worker/train/optimizer.hpp"

namespace trainyard::train {

/// The optimizer of `spec` over those of `parameters` that need a gradient. A step is one fused kernel, with results
/// bit-equal to Python's torch.optim.Adam(fused=True) and SGD(fused=True).
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const api::OptimizerSpec& spec,
                                                        const Optimizer::NamedTensors& parameters);

}  // namespace trainyard::train
