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

class Decentralized final : public PerRankModel {
 public:
  Decentralized(PerRankModelParts parts, torch::ScalarType type, PeerSelection selection)
      : PerRankModel{std::move(parts), type}, selection_{selection} {}

  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override {
    return after_average(std::move(optimizer), [this] { take_average(); });
  }

  void zero_gradients() override {
    PerRankModel::zero_gradients();
    if (!is_exchange_due()) return;
    flat().pack();
    if (pod_size() == 1) return begin_exchange_of_peers();
    stage_ = Stage::sum_of_pod;
    begin_sum_of_pod();
  }

  /// The peers, who are far apart, exchange while the backward pass runs.
  void begin_backward(bool /*is_last_batch*/) override {
    if (stage_ == Stage::sum_of_pod) begun_ = proceed();
  }

  [[nodiscard]] Result<void> finish_gradients() override {
    TRY(std::exchange(begun_, {}));
    while (stage_ != Stage::none) TRY(proceed());
    return {};
  }

 private:
  enum class Stage { none, sum_of_pod, peers, result_of_pod };  // the collective under way

  void begin_exchange_of_peers() {
    stage_ = Stage::peers;
    begin_exchange([this] { return begin(); }, flat_tensor().nbytes());
  }

  c10::intrusive_ptr<c10d::Work> begin() {
    if (selection_ == PeerSelection::all) {
      std::vector<torch::Tensor> message{flat_tensor()};
      return peers().allreduce(message);
    }
    const std::int64_t other = shift_one_peer(peer(), peer_count(), exchanges());
    std::vector<std::int64_t> sent = parts_for({other}, flat_tensor().numel(), peer_count()), received_parts = sent;
    received_ = torch::empty_like(flat_tensor());
    torch::Tensor own = flat_tensor();
    return peers().alltoall_base(received_, own, received_parts, sent);
  }

  /// Waits for the collective under way and begins the next one.
  Result<void> proceed() {
    TRY(finish_exchange());
    const torch::NoGradGuard no_grad;
    torch::Tensor mean = flat_tensor();
    switch (std::exchange(stage_, Stage::none)) {
      case Stage::sum_of_pod:
        if (is_one_pod()) {
          mean.div_(world_size());
          break;
        }
        if (!is_peer()) return begin_result();
        // A pair of pods takes the mean of their means. All pods together add up the sums of all ranks.
        if (selection_ == PeerSelection::shift_one) mean.div_(pod_size());
        begin_exchange_of_peers();
        return {};
      case Stage::peers:
        if (selection_ == PeerSelection::all) {
          mean.div_(world_size());
        } else {
          mean.add_(received_).div_(2);
        }
        if (pod_size() > 1) return begin_result();
        break;
      case Stage::result_of_pod:
      case Stage::none:
        break;
    }
    has_average_ = true;
    return {};
  }

  Result<void> begin_result() {
    stage_ = Stage::result_of_pod;
    begin_result_of_pod();
    return {};
  }

  /// Not before a step: until then a checkpoint may still be copied from the parameters.
  void take_average() {
    if (std::exchange(has_average_, false)) flat().unpack();
  }

  PeerSelection selection_;
  torch::Tensor received_;  // with shift_one: the peer's parameters
  Stage stage_ = Stage::none;
  Result<void> begun_;  // why the peers could not begin
  bool has_average_ = false;
};

}  // namespace

std::int64_t shift_one_peer(std::int64_t rank, std::int64_t world_size, std::int64_t exchange) {
  const std::int64_t half = world_size / 2;
  if (rank < half) return (exchange + rank) % half + half;
  return ((rank - half - exchange) % half + half) % half;
}

std::unique_ptr<GradientSync> make_decentralized(PerRankModelParts parts, PeerSelection selection) {
  const int peers = peers_of(parts).getSize();
  const bool is_alone = parts.pods && peers == 1;  // One pod, whose ranks take their mean.
  if (selection == PeerSelection::shift_one && peers % 2 != 0 && !is_alone)
    throw InvalidJob{
        fmt::format("training.strategy.peerSelection: shiftOne pairs the {}, and there are {} of them: choose an "
                    "even number, or "
                    "peerSelection all",
                    parts.pods ? "pods" : "ranks", peers)};
  const torch::ScalarType type = averaged_type(parts.parameters);
  return std::make_unique<Decentralized>(std::move(parts), type, selection);
}

namespace {

class LowPrecisionDecentralized final : public PerRankModel {
 public:
  explicit LowPrecisionDecentralized(PerRankModelParts parts)
      : PerRankModel{std::move(parts), torch::kFloat},
        left_{(peer() + peer_count() - 1) % peer_count()},
        right_{(peer() + 1) % peer_count()},
        peers_{torch::zeros({1}, torch::kInt64)} {
    if (is_one_pod()) return;
    for (torch::Tensor* replica : {&own_replica_, &left_replica_, &right_replica_})
      *replica = torch::zeros_like(flat_tensor());
  }

  [[nodiscard]] Result<void> synchronize_model() override {
    TRY(PerRankModel::synchronize_model());
    begin_replicas();
    return {};
  }

  [[nodiscard]] Result<void> after_update() override {
    if (is_exchange_due()) TRY(exchange());
    return PerRankModel::after_update();
  }

  [[nodiscard]] NamedTensors state() const override {
    NamedTensors state = PerRankModel::state();
    state.emplace_back("ranks", peers_);
    if (is_one_pod()) return state;
    state.emplace_back("replica", own_replica_);
    state.emplace_back("replica.left", left_replica_);
    state.emplace_back("replica.right", right_replica_);
    return state;
  }

  void before_save() override {
    PerRankModel::before_save();
    peers_.fill_(peers_number());
  }

  [[nodiscard]] Result<void> after_restore() override {
    // After a change of the ranks that are peers some have no replicas, or other neighbours. All ranks find that alike.
    if (peers_.item<std::int64_t>() == peers_number()) return PerRankModel::after_restore();
    begin_replicas();
    return restore_steps_and_buffers();
  }

 private:
  void begin_replicas() {
    if (is_one_pod()) return;
    flat().pack();
    for (torch::Tensor* replica : {&own_replica_, &left_replica_, &right_replica_}) replica->copy_(flat_tensor());
  }

  Result<void> exchange() {
    const torch::NoGradGuard no_grad;
    flat().pack();
    if (pod_size() > 1) {
      begin_sum_of_pod();
      TRY(finish_exchange());
      torch::Tensor mean = flat_tensor();
      mean.div_(pod_size());
    }
    if (is_peer()) TRY(exchange_with_neighbours());
    if (pod_size() > 1 && !is_one_pod()) {
      begin_result_of_pod();
      TRY(finish_exchange());
    }
    flat().unpack();
    return {};
  }

  /// The flat parameters become the rank's own replica.
  Result<void> exchange_with_neighbours() {
    const torch::Tensor difference =
        flat_tensor() + left_replica_ / 3.0 + right_replica_ / 3.0 - own_replica_ * (5.0 / 3.0);
    const torch::Tensor own = compress(difference.view({1, -1}));
    // In a group of two each rank is the other's neighbour on both sides, and needs its bytes once.
    const bool has_one_neighbour = left_ == right_;
    torch::Tensor sent = (has_one_neighbour ? own : own.repeat({2, 1})).flatten();
    torch::Tensor received = torch::empty_like(sent);
    std::vector<std::int64_t> parts = parts_for({left_, right_}, own.numel(), peer_count()), received_parts = parts;
    begin_exchange([&] { return peers().alltoall_base(received, sent, received_parts, parts); }, sent.nbytes());
    TRY(finish_exchange());
    const std::int64_t elements = difference.numel();
    const torch::Tensor changes = decompress(received.view({-1, own.numel()}), elements);  // in the order of the ranks
    left_replica_.add_(changes[has_one_neighbour || left_ < right_ ? 0 : 1]);
    right_replica_.add_(changes[has_one_neighbour || right_ < left_ ? 0 : 1]);
    own_replica_.add_(decompress(own, elements)[0]);
    torch::Tensor flat_copy = flat_tensor();
    flat_copy.copy_(own_replica_);
    return {};
  }

  std::int64_t left_;
  std::int64_t right_;
  // Undefined where there is one pod. A rank that is no peer has unused ones: all ranks save the same entries.
  torch::Tensor own_replica_;    // W: what the neighbours take this rank's parameters to be
  torch::Tensor left_replica_;   // L
  torch::Tensor right_replica_;  // R
  torch::Tensor peers_;          // int64 [1], on the host: the peers_number() of the ranks that saved the replicas
};

}  // namespace

std::unique_ptr<GradientSync> make_low_precision_decentralized(PerRankModelParts parts) {
  return std::make_unique<LowPrecisionDecentralized>(std::move(parts));
}

}  // namespace trainyard::strategy
