#include "worker/strategy/decentralized.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/strategy/byte_grad.hpp"

namespace trainyard::strategy {
namespace {

class Decentralized final : public OwnModel {
 public:
  Decentralized(OwnModelParts parts, torch::ScalarType type, PeerSelection selection)
      : OwnModel{std::move(parts), type}, selection_{selection} {}

  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override {
    return after_average(std::move(optimizer), [this] { take_average(); });
  }

  void zero_gradients() override {
    OwnModel::zero_gradients();
    if (!is_exchange_due()) return;
    flat().pack();
    begin_exchange([this] { return begin(); }, flat_tensor().nbytes());
  }

  [[nodiscard]] Result<void> finish_gradients() override {
    has_average_ = TRY(finish_exchange());
    return {};
  }

 private:
  c10::intrusive_ptr<c10d::Work> begin() {
    if (selection_ == PeerSelection::all) {
      std::vector<torch::Tensor> message{flat_tensor()};
      return process_group().allreduce(message);
    }
    const std::int64_t peer = shift_one_peer(rank(), world_size(), exchanges());
    std::vector<std::int64_t> sent = parts_for({peer}, flat_tensor().numel(), world_size()), received_parts = sent;
    received_ = torch::empty_like(flat_tensor());
    torch::Tensor own = flat_tensor();
    return process_group().alltoall_base(received_, own, received_parts, sent);
  }

  /// Not before a step: until then a checkpoint may still be copied from the parameters.
  void take_average() {
    if (!std::exchange(has_average_, false)) return;
    const torch::NoGradGuard no_grad;
    torch::Tensor mean = flat_tensor();
    if (selection_ == PeerSelection::all) {
      mean.div_(world_size());
    } else {
      mean.add_(received_).div_(2);
    }
    flat().unpack();
  }

  PeerSelection selection_;
  torch::Tensor received_;  // with shift_one: the peer's parameters
  bool has_average_ = false;
};

}  // namespace

std::int64_t shift_one_peer(std::int64_t rank, std::int64_t world_size, std::int64_t exchange) {
  const std::int64_t half = world_size / 2;
  if (rank < half) return (exchange + rank) % half + half;
  return ((rank - half - exchange) % half + half) % half;
}

std::unique_ptr<GradientSync> make_decentralized(OwnModelParts parts, PeerSelection selection) {
  const int ranks = parts.process_group->getSize();
  if (selection == PeerSelection::shift_one && ranks % 2 != 0)
    throw InvalidJob{
        fmt::format("training.strategy.peerSelection: shiftOne pairs the ranks, and there are {} of them: choose an "
                    "even number, or "
                    "peerSelection all",
                    ranks)};
  const torch::ScalarType type = averaged_type(parts.parameters);
  return std::make_unique<Decentralized>(std::move(parts), type, selection);
}

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
    // After a change of the number of ranks some have no replicas, or other neighbours. All ranks find that alike.
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
    // In a group of two each rank is the other's neighbour on both sides, and needs its bytes once.
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
