#include "worker/strategy/low_precision_decentralized.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "worker/strategy/min_max_uint8.hpp"

namespace trainyard::strategy {
namespace {

class LowPrecisionDecentralized final : public OwnModel {
 public:
  explicit LowPrecisionDecentralized(OwnModelParts parts)
      : OwnModel{std::move(parts), torch::kFloat},
        left_{(rank() + world_size() - 1) % world_size()},
        right_{(rank() + 1) % world_size()},
        ranks_{torch::zeros({1}, torch::kInt64)} {
    for (torch::Tensor* replica : {&own_replica_, &left_replica_, &right_replica_})
      *replica = torch::zeros_like(flat_tensor());
  }

  [[nodiscard]] Result<void> synchronize_model() override {
    TRY(OwnModel::synchronize_model());
    begin_replicas();
    return {};
  }

  [[nodiscard]] Result<void> after_update() override {
    if (is_exchange_due()) TRY(exchange());
    return OwnModel::after_update();
  }

  [[nodiscard]] NamedTensors state() const override {
    NamedTensors state = OwnModel::state();
    state.emplace_back("ranks", ranks_);
    state.emplace_back("replica", own_replica_);
    state.emplace_back("replica.left", left_replica_);
    state.emplace_back("replica.right", right_replica_);
    return state;
  }

  void before_save() override {
    OwnModel::before_save();
    ranks_.fill_(world_size());
  }

  [[nodiscard]] Result<void> after_restore() override {
    // Of another number of ranks some have no replicas, or other neighbours. All ranks find that alike.
    if (ranks_.item<std::int64_t>() == world_size()) return OwnModel::after_restore();
    begin_replicas();
    return restore_steps_and_buffers();
  }

 private:
  void begin_replicas() {
    flat().pack();
    for (torch::Tensor* replica : {&own_replica_, &left_replica_, &right_replica_}) replica->copy_(flat_tensor());
  }

  Result<void> exchange() {
    const torch::NoGradGuard no_grad;
    flat().pack();
    const torch::Tensor difference =
        flat_tensor() + left_replica_ / 3.0 + right_replica_ / 3.0 - own_replica_ * (5.0 / 3.0);
    const torch::Tensor own = compress(difference.view({1, -1}));
    // Of two ranks each is the other's neighbour on both sides, and needs its bytes once.
    const bool has_one_neighbour = left_ == right_;
    torch::Tensor sent = (has_one_neighbour ? own : own.repeat({2, 1})).flatten();
    torch::Tensor received = torch::empty_like(sent);
    std::vector<std::int64_t> parts = parts_for({left_, right_}, own.numel(), world_size()), received_parts = parts;
    begin_exchange([&] { return process_group().alltoall_base(received, sent, received_parts, parts); }, sent.nbytes());
    TRY(finish_exchange());
    const std::int64_t elements = difference.numel();
    const torch::Tensor changes = decompress(received.view({-1, own.numel()}), elements);  // in the order of the ranks
    left_replica_.add_(changes[has_one_neighbour || left_ < right_ ? 0 : 1]);
    right_replica_.add_(changes[has_one_neighbour || right_ < left_ ? 0 : 1]);
    own_replica_.add_(decompress(own, elements)[0]);
    torch::Tensor flat_copy = flat_tensor();
    flat_copy.copy_(own_replica_);
    flat().unpack();
    return {};
  }

  std::int64_t left_;
  std::int64_t right_;
  torch::Tensor own_replica_;    // W: what the neighbours take this rank's parameters to be
  torch::Tensor left_replica_;   // L
  torch::Tensor right_replica_;  // R
  torch::Tensor ranks_;          // int64 [1], on the host: how many ranks saved the replicas
};

}  // namespace

std::unique_ptr<GradientSync> make_low_precision_decentralized(OwnModelParts parts) {
  return std::make_unique<LowPrecisionDecentralized>(std::move(parts));
}

}  // namespace trainyard::strategy
