#pragma once

#include <memory>

#include "worker/strategy/own_model.hpp"

namespace trainyard::strategy {

/// Bagua's low-precision decentralized algorithm. The ranks are a ring. Each rank has a replica W of its own parameters
/// and replicas L and R of its two neighbours', in float32. After the optimizer's step has made x of the parameters,
/// the rank sends d = x + L/3 + R/3 - 5W/3 as bytes (min_max_uint8.hpp) to both neighbours. What the bytes keep of d is
/// added to W here and to the neighbours' replicas there, and the parameters become W. Replicas of a resumed training
/// of another number of ranks begin anew, with rank 0's parameters on all ranks.
[[nodiscard]] std::unique_ptr<GradientSync> make_low_precision_decentralized(OwnModelParts parts);

}  // namespace trainyard::strategy
