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

namespace trainyard::strategy {
namespace {

/// The optimizer of a module, before whose steps something else changes the parameters.
class AfterAverage final : public Optimizer {
 public:
  AfterAverage(std::unique_ptr<Optimizer> optimizer, std::function<void()> average)
      : optimizer_{std::move(optimizer)}, average_{std::move(average)} {}

  void step() override {
    average_();
    optimizer_->step();
  }
  void step_unless(const torch::Tensor& found_inf) override {
    average_();
    optimizer_->step_unless(found_inf);
  }
  void set_lr_factor(double factor) override { optimizer_->set_lr_factor(factor); }
  [[nodiscard]] NamedTensors state() override { return optimizer_->state(); }
  void before_save() override { optimizer_->before_save(); }
  void after_restore() override { optimizer_->after_restore(); }

 private:
  std::unique_ptr<Optimizer> optimizer_;
  std::function<void()> average_;
};

torch::ScalarType exchanged_type(const NamedTensors& parameters) {
  const auto is_double = [](const auto& parameter) { return parameter.second.scalar_type() == torch::kDouble; };
  return std::ranges::any_of(parameters, is_double) ? torch::kDouble : torch::kFloat;
}

class Decentralized final : public OwnModel {
 public:
  Decentralized(OwnModelParts parts, torch::ScalarType type, PeerSelection selection)
      : OwnModel{std::move(parts), type}, selection_{selection} {}

  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override {
    return std::make_unique<AfterAverage>(std::move(optimizer), [this] { take_average(); });
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
  const torch::ScalarType type = exchanged_type(parts.parameters);
  return std::make_unique<Decentralized>(std::move(parts), type, selection);
}

}  // namespace trainyard::strategy
