#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

struct PowerSgdOptions {
  std::int64_t rank = 1;           ///< Columns of the two factors that are sent in place of a matrix.
  std::int64_t start_step = 1000;  ///< The steps before it exchange gradients as they are.
  bool has_error_feedback = true;  ///< The part that the factors leave out is added to the next step's gradient.
  bool has_warm_start = true;      ///< A step begins with the second factor of the step before.
  std::uint64_t seed = 0;          ///< Seed of the second factors that a training begins with.
};

/// PowerSGD (Vogels et al. 2019), as powerSGD_hook of PyTorch's DDP: the gradient M of a parameter of two or more
/// dimensions, as a matrix of n rows, is replaced by P Q^T, where P = orthogonal(sum M Q) and Q = mean M^T P. A matrix
/// is sent whole where the factors would need more than half of its bytes, and so are vectors. A step whose factors are
/// not finite changes no state. `names`: of the parameters, by index.
[[nodiscard]] MakeExchange power_sgd(PowerSgdOptions options, std::vector<std::string> names);

}  // namespace trainyard::strategy
