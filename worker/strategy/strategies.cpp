#include "worker/strategy/strategies.hpp"

#include <utility>

#include "worker/strategy/ddp.hpp"

namespace trainyard::strategy {
namespace {

/// The strategy of one rank: its gradients stay as the backward pass leaves them.
class SingleRank final : public GradientSync {
 public:
  explicit SingleRank(NamedTensors parameters) : parameters_{std::move(parameters)} {}

  [[nodiscard]] Result<void> synchronize_model() override { return {}; }
  void zero_gradients() override {
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
  }
  void begin_backward(bool /*is_last_batch*/) override {}
  [[nodiscard]] Result<void> finish_gradients() override { return {}; }

 private:
  NamedTensors parameters_;
};

}  // namespace

std::unique_ptr<GradientSync> make_gradient_sync(NamedTensors parameters, NamedTensors buffers, dist::Group& group,
                                                 WaitForWork wait, WaitForWork follow) {
  if (group.world_size == 1) return std::make_unique<SingleRank>(std::move(parameters));
  return std::make_unique<Ddp>(std::move(parameters), std::move(buffers), group.process_group, *group.communicator,
                               std::move(wait), DdpOptions{.limits = {}, .follow = std::move(follow)});
}

}  // namespace trainyard::strategy
