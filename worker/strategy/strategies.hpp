#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>

#include "api/strategy_spec.hpp"
#include "worker/dist/group.hpp"
#include "worker/strategy/exchange_timeline.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// Makes the strategy by which the gradients of the ranks of `group` become one: that of `spec`, or none for a single
/// rank. `group` and `timeline`, which gets the times of the exchanges if it is not nullptr, outlive the result. async
/// takes the group's averaging_reducer, so that it can be made once.
/// `follow` is for the collectives of usual steps; not set: `wait`.
/// `comm_hook`: the model's own exchange of each bucket, in place of that of ddp or ddp2. Throws InvalidJob for a
/// `spec` that exchanges gradients otherwise.
[[nodiscard]] std::unique_ptr<GradientSync> make_gradient_sync(NamedTensors parameters, NamedTensors buffers,
                                                               dist::Group& group, WaitForWork wait,
                                                               WaitForWork follow = {},
                                                               const api::StrategySpec& spec = {},
                                                               ExchangeTimeline* timeline = nullptr,
                                                               std::shared_ptr<c10d::CommHookInterface> comm_hook = {});

}  // namespace trainyard::strategy
