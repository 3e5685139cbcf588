#include "worker/strategy/packed_tensors.hpp"

#include <ATen/Functions.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>

#include "common/check.hpp"

namespace trainyard::strategy {
namespace {

constexpr std::int64_t alignment_bytes = 16;  // The alignment of the largest dtype, complex128.

std::int64_t padded_bytes(const torch::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

}  // namespace

PackedTensors::PackedTensors(const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty()) return;
  std::int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    check(tensor.device() == tensors.front().device(), "packed tensors are on one device");
    bytes += padded_bytes(tensor);
  }
  bytes_ = torch::zeros({bytes}, tensors.front().options().dtype(torch::kUInt8));
  std::int64_t begin = 0;
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor slice = bytes_.slice(0, begin, begin + static_cast<std::int64_t>(tensor.nbytes()));
    OneType& type = types_[tensor.scalar_type()];
    type.tensors.push_back(tensor);
    type.slices.push_back(slice.view(tensor.scalar_type()).view(tensor.sizes()));
    begin += padded_bytes(tensor);
  }
}

void PackedTensors::pack() {
  const torch::NoGradGuard no_grad;
  for (auto& [dtype, type] : types_) at::_foreach_copy_(type.slices, type.tensors);
}

void PackedTensors::unpack() {
  const torch::NoGradGuard no_grad;
  for (auto& [dtype, type] : types_) at::_foreach_copy_(type.tensors, type.slices);
}

}  // namespace trainyard::strategy
