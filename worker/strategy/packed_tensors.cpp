#include "worker/strategy/packed_tensors.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <utility>

#include "common/check.hpp"

namespace trainyard::strategy {
namespace {

constexpr std::int64_t alignment_bytes = 16;  // The alignment of the largest dtype, complex128.

std::int64_t padded_bytes(const torch::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

}  // namespace

PackedTensors::PackedTensors(std::vector<torch::Tensor> tensors) : tensors_{std::move(tensors)} {
  if (tensors_.empty()) return;
  std::int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors_) {
    check(tensor.device() == tensors_.front().device(), "packed tensors are on one device");
    bytes += padded_bytes(tensor);
  }
  bytes_ = torch::zeros({bytes}, tensors_.front().options().dtype(torch::kUInt8));
  std::int64_t begin = 0;
  for (const torch::Tensor& tensor : tensors_) {
    const torch::Tensor slice = bytes_.slice(0, begin, begin + static_cast<std::int64_t>(tensor.nbytes()));
    slices_.push_back(slice.view(tensor.scalar_type()).view(tensor.sizes()));
    begin += padded_bytes(tensor);
  }
}

void PackedTensors::pack() {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; index < tensors_.size(); ++index) slices_[index].copy_(tensors_[index]);
}

void PackedTensors::unpack() {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; index < tensors_.size(); ++index) tensors_[index].copy_(slices_[index]);
}

}  // namespace trainyard::strategy
