#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "worker/strategy/model_agreement.hpp"

namespace trainyard::strategy {

/// This rank's own buffers as state of the strategy, where no rank sends its buffers to the others: a checkpoint's
/// model has rank 0's.
class OwnBuffers {
 public:
  /// Keeps `buffers`, which must keep their storage.
  explicit OwnBuffers(const NamedTensors& buffers);

  /// Copies the buffers into state().
  void before_save();
  /// Copies state() into the buffers, unless the checkpoint did not have this rank's.
  void after_restore();
  [[nodiscard]] NamedTensors state() const;

 private:
  struct Kept {
    std::string name;
    torch::Tensor buffer;
    torch::Tensor copy;
  };

  std::vector<Kept> kept_;
  torch::Tensor is_saved_;  // uint8 [1], on the host: not zero in the state of a rank that saved its buffers
};

}  // namespace trainyard::strategy
