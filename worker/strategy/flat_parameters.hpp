#pragma once

#include <torch/types.h>

#include <vector>

namespace trainyard::strategy {

/// Copies of parameters as one tensor of one type, which ranks exchange while the parameters themselves are in use.
class FlatParameters {
 public:
  /// Keeps `parameters`, which are on one device and must keep their storage. `type`: of the copies.
  FlatParameters(const std::vector<torch::Tensor>& parameters, torch::ScalarType type);

  /// Copies the parameters into flat().
  void pack();
  /// Copies flat() into the parameters.
  void unpack();
  /// One dimension, which keeps its storage.
  [[nodiscard]] const torch::Tensor& flat() const { return flat_; }

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> views_;  // of flat_, by parameter
  torch::Tensor flat_;
};

}  // namespace trainyard::strategy
