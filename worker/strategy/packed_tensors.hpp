#pragma once

#include <torch/types.h>

#include <vector>

namespace trainyard::strategy {

/// Tensors of any dtypes on one device as one tensor of bytes, so that one collective sends them all.
class PackedTensors {
 public:
  /// Keeps `tensors`, which must keep their storage and have no autograd history.
  explicit PackedTensors(std::vector<torch::Tensor> tensors);

  /// Copies the tensors into bytes().
  void pack();
  /// Copies bytes() into the tensors.
  void unpack();
  /// uint8 [B]; undefined when there are no tensors.
  [[nodiscard]] const torch::Tensor& bytes() const { return bytes_; }

 private:
  std::vector<torch::Tensor> tensors_;
  std::vector<torch::Tensor> slices_;  // of bytes_, each with the dtype and shape of its tensor
  torch::Tensor bytes_;
};

}  // namespace trainyard::strategy
