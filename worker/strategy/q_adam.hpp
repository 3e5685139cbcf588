#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// An Adam whose first moments an exchange can compute in its place.
class AdamWithExchangedMoments {
 public:
  struct Parameter {
    torch::Tensor tensor;
    torch::Tensor first_moment;  ///< In the shape and layout of `tensor`. Only a step changes it.
    double weight_decay = 0.0;   ///< Added to the gradient (L2).
  };

  /// The tensor that a step finds in grad() of a parameter.
  enum class Grad {
    gradient,      ///< At the beginning.
    first_moment,  ///< The new first moment. The second moment then stays as it is.
  };

  virtual ~AdamWithExchangedMoments() = default;
  [[nodiscard]] virtual double beta1() const = 0;
  /// The parameters that the optimizer trains.
  [[nodiscard]] virtual std::vector<Parameter> parameters_with_moments() = 0;
  /// From the next step on grad() of all parameters is `grad`.
  virtual void take_grad_for(Grad grad) = 0;
};

/// Bagua's QAdam. The first `warmup_steps` steps exchange gradients as they are. After them each rank adds its own
/// gradient to the first moments of Adam, and the ranks exchange these moments as bytes (byte_grad.hpp): grad() of a
/// parameter is then its new first moment, with weight decay in it, and the second moments stay as they are. The
/// optimizer must be an AdamWithExchangedMoments; adapt() throws InvalidJob for another one.
[[nodiscard]] MakeExchange q_adam(std::int64_t warmup_steps);

}  // namespace trainyard::strategy
