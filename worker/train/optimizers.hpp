#pragma once

#include <memory>

#include "api/training_spec.hpp"
#include "include/trainyard/module.hpp"

namespace trainyard::train {

/// The job's `spec` as modules get it.
[[nodiscard]] OptimizerSpec public_spec(const api::OptimizerSpec& spec);

/// The optimizer that `module` configures for the job's `spec`. Throws InvalidJob when that is none, and what the
/// module throws.
[[nodiscard]] std::unique_ptr<Optimizer> open_optimizer(Module& module, const api::OptimizerSpec& spec);

/// The optimizer of `spec` over those of `parameters` that need a gradient. A step is one fused kernel, with results
/// bit-equal to Python's torch.optim.Adam(fused=True), AdamW(fused=True) and SGD(fused=True), except for lamb, and for
/// sgd in 16-bit types on a CPU. Throws InvalidJob for an unknown name.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec,
                                                        const Optimizer::NamedTensors& parameters);

}  // namespace trainyard::train
