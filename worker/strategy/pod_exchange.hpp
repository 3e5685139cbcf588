#pragma once

#include "worker/dist/pods.hpp"
#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// Bagua's hierarchical exchange. The gradients of a pod's ranks are added up at the pod's first rank. The first ranks
/// exchange these sums by what `make_inner` makes for the process group of the first ranks, and each of them sends the
/// result to its pod. Gradients are multiplied beforehand so that a mean over the first ranks is the mean over all
/// ranks, also where pods have different numbers of them. With one pod all ranks add their gradients up, and each does
/// what the inner exchange does in a process group of one rank. The inner exchange has its optimizer and state on all
/// ranks, and equally many collectives for each bucket.
[[nodiscard]] MakeExchange by_pod(MakeExchange make_inner, dist::PodGroups pods);

}  // namespace trainyard::strategy
