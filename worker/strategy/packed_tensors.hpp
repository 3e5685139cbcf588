#pragma once

#include <torch/types.h>

#include <map>
#include <vector>

namespace trainyard::strategy {

/// Tensors of any dtypes on one device as one tensor of bytes, so that one collective sends them all.
class PackedTensors {
 public:
  /// Keeps `tensors`, which must keep their storage and have no autograd history.
  explicit PackedTensors(const std::vector<torch::Tensor>& tensors);

  /// Copies the tensors into bytes().
  void pack();
  /// Copies bytes() into the tensors.
  void unpack();
  /// uint8 [B]; undefined when there are no tensors.
  [[nodiscard]] const torch::Tensor& bytes() const { return bytes_; }

 private:
  struct OneType {
    std::vector<torch::Tensor> tensors;
    std::vector<torch::Tensor> slices;  // of bytes_, each with the dtype and shape of its tensor
  };

  std::map<torch::ScalarType, OneType> types_;  // a GPU copies all tensors of one type by one kernel
  torch::Tensor bytes_;
};

}  // namespace trainyard::strategy
