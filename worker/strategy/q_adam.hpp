#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// An Adam whose first moments an exchange can compute in its place.
class AdamOfMomenta {
 public:
  struct Parameter {
    torch::Tensor tensor;
    torch::Tensor first_moment;  ///< In the shape and layout of `tensor`. Only a step changes it.
    double weight_decay = 0.0;   ///< Added to the gradient (L2).
  };

  virtual ~AdamOfMomenta() = default;
  [[nodiscard]] virtual double beta1() const = 0;
  [[nodiscard]] virtual std::vector<Parameter> momentum_parameters() = 0;
  /// `takes` true: from now on a step takes each parameter's grad() as its new first moment, and does not change the
  /// second moment. `takes` false, which is the beginning: a step takes grad() as the gradient.
  virtual void take_momenta(bool takes) = 0;
};

/// Bagua's QAdam. The first `warmup_steps` steps exchange gradients as they are. After them each rank adds its own
/// gradient to the first moments of Adam, and the ranks exchange these moments as bytes (byte_grad.hpp): grad() of a
/// parameter is then its new first moment, with weight decay in it, and the second moments stay as they are. The
/// optimizer must be an AdamOfMomenta; adapt() throws InvalidJob for another one.
[[nodiscard]] MakeExchange q_adam(std::int64_t warmup_steps);

}  // namespace trainyard::strategy
