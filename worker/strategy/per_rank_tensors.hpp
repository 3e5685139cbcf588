#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "worker/strategy/model_agreement.hpp"

namespace trainyard::strategy {

/// Tensors (buffers or parameters) whose values differ between ranks, as state of the strategy: each rank's part of a
/// checkpoint has that rank's values, while the checkpoint's model has rank 0's.
class PerRankTensors {
 public:
  /// Keeps `tensors`, which must keep their storage. `kind` is a part of their names in state(), such as "buffer".
  PerRankTensors(const NamedTensors& tensors, std::string kind);

  /// Copies the tensors into state().
  void before_save();
  /// Copies state() into the tensors, unless the checkpoint did not have this rank's.
  void after_restore();
  [[nodiscard]] NamedTensors state() const;

 private:
  struct Kept {
    std::string name;
    torch::Tensor tensor;
    torch::Tensor copy;
  };

  std::string kind_;
  std::vector<Kept> kept_;
  torch::Tensor is_saved_;  // uint8 [1], on the host: not zero in the state of a rank that saved its tensors
};

}  // namespace trainyard::strategy
