#include "worker/strategy/flat_parameters.hpp"

#include <ATen/Functions.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>

namespace trainyard::strategy {

FlatParameters::FlatParameters(const std::vector<torch::Tensor>& parameters, torch::ScalarType type) {
  std::int64_t elements = 0;
  for (const torch::Tensor& parameter : parameters) elements += parameter.numel();
  const auto device = parameters.empty() ? torch::Device{torch::kCPU} : parameters.front().device();
  flat_ = torch::zeros({elements}, torch::dtype(type).device(device));
  std::int64_t begin = 0;
  for (const torch::Tensor& parameter : parameters) {
    parameters_.push_back(parameter.detach());
    views_.push_back(flat_.slice(0, begin, begin + parameter.numel()).view(parameter.sizes()));
    begin += parameter.numel();
  }
}

void FlatParameters::pack() {
  const torch::NoGradGuard no_grad;
  if (!parameters_.empty()) at::_foreach_copy_(views_, parameters_);
}

void FlatParameters::unpack() {
  const torch::NoGradGuard no_grad;
  if (!parameters_.empty()) at::_foreach_copy_(parameters_, views_);
}

}  // namespace trainyard::strategy
