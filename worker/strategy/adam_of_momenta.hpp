#pragma once

#include <torch/types.h>

#include <vector>

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
  /// True: the steps that follow take each parameter's grad() as its new first moment, and leave the second moment as
  /// it is. False, as in the beginning: they take it as the gradient.
  virtual void take_momenta(bool takes) = 0;
};

}  // namespace trainyard::strategy
