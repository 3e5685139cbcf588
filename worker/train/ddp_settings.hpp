#pragma once

#include "api/strategy_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/module.hpp"
#include "worker/dist/group.hpp"

namespace trainyard::train {

/// `strategy`, ddp or ddp2, with what `settings` say. Refuses as invalid a bucket size out of its range, and
/// sync_batch_norm with ddp2. Pure.
[[nodiscard]] Result<api::StrategySpec> with_settings(api::StrategySpec strategy, const DdpSettings& settings);

/// `strategy` as the model's configure_ddp() changes it; any other than ddp and ddp2, and that of a single rank, stays
/// as it is. Collective over the group. Errors: cancelled, unavailable and timeout, of the group. Throws InvalidJob, on
/// all ranks alike, for settings that differ between ranks or that with_settings() refuses, and what the model throws.
[[nodiscard]] Result<api::StrategySpec> configure_ddp(Module& module, const dist::Group& group,
                                                      const api::StrategySpec& strategy);

}  // namespace trainyard::train
