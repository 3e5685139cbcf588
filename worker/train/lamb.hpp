#pragma once

#include <memory>
#include <vector>

#include "worker/train/foreach_optimizer.hpp"

namespace trainyard::train {

/// LAMB (You et al. 2020, algorithm 2, with phi(x) = x): with Adam's bias-corrected means m and v of a parameter x,
///   u = m / (sqrt(v) + eps) + weight_decay * x,   x = x - lr * |x| / |u| * u,
/// where |x| / |u| is 1 if either norm is zero. The norms are those of one parameter. Uses beta1, beta2 and eps of
/// `spec`.
[[nodiscard]] std::unique_ptr<Optimizer> make_lamb(const OptimizerSpec& spec,
                                                   std::vector<OptimizedParameter> parameters);

}  // namespace trainyard::train
