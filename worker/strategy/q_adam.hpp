#pragma once

#include <cstdint>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// Bagua's QAdam. The first `warmup_steps` steps exchange gradients as they are. After them each rank adds its own
/// gradient to the first moments of Adam, and the ranks exchange these moments as bytes (byte_mean.hpp): grad() of a
/// parameter is then its new first moment, with weight decay in it, and the second moments stay as they are. The
/// optimizer must be an AdamOfMomenta; adapt() throws InvalidJob for another one.
[[nodiscard]] MakeExchange q_adam(std::int64_t warmup_steps);

}  // namespace trainyard::strategy
