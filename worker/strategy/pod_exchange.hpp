#pragma once

#include "worker/dist/pods.hpp"
#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// Returns Bagua's hierarchical exchange (docs/strategies.md, "By pod"). The gradients of a pod's ranks are added up at
/// the pod's first rank. The first ranks exchange these sums by what `make_inner` makes for their process group, and
/// each sends the result to its pod. A mean over the first ranks is then the mean over all ranks, also where pods have
/// different numbers of ranks. With one pod each rank gets the sum, and does with it what the inner exchange does in a
/// process group of one rank.
///
/// The inner exchange must have equally many collectives for each bucket. Its optimizer and state are on all ranks.
[[nodiscard]] MakeExchange by_pod(MakeExchange make_inner, dist::PodGroups pods);

}  // namespace trainyard::strategy
