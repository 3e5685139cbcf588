#include "worker/strategy/byte_mean.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>
#include <vector>

#include "worker/strategy/min_max_uint8.hpp"

namespace trainyard::strategy {

ByteMean::ByteMean(torch::Tensor numbers, c10::intrusive_ptr<c10d::ProcessGroup> process_group)
    : numbers_{std::move(numbers)}, process_group_{std::move(process_group)} {
  const std::int64_t ranks = process_group_->getSize();
  chunks_ = torch::zeros({ranks, (numbers_.numel() + ranks - 1) / ranks}, numbers_.options().dtype(torch::kFloat));
}

c10::intrusive_ptr<c10d::Work> ByteMean::begin() {
  const torch::NoGradGuard no_grad;
  of_chunks().copy_(numbers_);
  sent_ = compress(chunks_);
  received_ = torch::empty_like(sent_);
  stage_ = Stage::parts;
  std::vector<std::int64_t> equal_parts;
  return process_group_->alltoall_base(received_, sent_, equal_parts, equal_parts);
}

c10::intrusive_ptr<c10d::Work> ByteMean::proceed() {
  const torch::NoGradGuard no_grad;
  const torch::Tensor read = decompress(received_, chunks_.size(1));
  if (std::exchange(stage_, Stage::means) == Stage::parts) {
    sent_ = compress(read.mean(0, /*keepdim=*/true));
    return process_group_->_allgather_base(received_, sent_);
  }
  chunks_.copy_(read);
  numbers_.copy_(of_chunks());
  return {};
}

std::uint64_t ByteMean::bytes() const {
  return static_cast<std::uint64_t>((chunks_.size(0) + 1) * compressed_bytes(chunks_.size(1)));
}

}  // namespace trainyard::strategy
