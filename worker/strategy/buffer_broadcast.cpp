#include "worker/strategy/buffer_broadcast.hpp"

#include <utility>

namespace trainyard::strategy {

BufferBroadcast::BufferBroadcast(std::vector<torch::Tensor> tensors,
                                 c10::intrusive_ptr<c10d::ProcessGroup> process_group)
    : packed_{std::move(tensors)}, process_group_{std::move(process_group)} {}

c10::intrusive_ptr<c10d::Work> BufferBroadcast::begin() {
  if (process_group_->getRank() == 0) packed_.pack();
  std::vector<torch::Tensor> message{packed_.bytes()};
  return process_group_->broadcast(message, {.rootRank = 0});
}

void BufferBroadcast::finish() {
  if (process_group_->getRank() != 0) packed_.unpack();
}

}  // namespace trainyard::strategy
