#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>

#include "api/strategy_spec.hpp"
#include "worker/dist/group.hpp"
#include "worker/strategy/exchange_timeline.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// The parts from which a strategy of several ranks is made.
struct StrategyParts {
  NamedTensors parameters;  ///< All parameters, also those that need no gradient.
  NamedTensors buffers;
  dist::Group& group;  ///< Outlives the strategy.
  WaitForWork wait;
  WaitForWork follow;  ///< For the collectives of usual steps. Always set.
  api::StrategySpec spec{};
  /// Gets the times of the exchanges unless it is nullptr. Outlives the strategy.
  ExchangeTimeline* timeline = nullptr;
  /// The model's own exchange of each bucket, or nullptr. Only ddp and ddp2 get one.
  std::shared_ptr<c10d::CommHookInterface> comm_hook{};
};

}  // namespace trainyard::strategy
