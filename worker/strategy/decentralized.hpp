#pragma once

#include <cstdint>
#include <memory>

#include "worker/strategy/per_rank_model.hpp"

namespace trainyard::strategy {

enum class PeerSelection {
  all,        ///< The mean of the parameters of all ranks.
  shift_one,  ///< The mean with one other rank, or pod, another one in each exchange. Needs an even number of them.
};

/// Bagua's decentralized algorithm: while a step's forward and backward passes run, the ranks average the parameters
/// with which the step began, over all ranks or over pairs. The optimizer then changes this mean by the rank's own
/// gradients. Parameters of 64 bits are exchanged as such, all others as float32, since a mean in 16 bits would lose
/// the steps of training. Throws InvalidJob for shift_one of an odd number of ranks, or of pods above one.
[[nodiscard]] std::unique_ptr<GradientSync> make_decentralized(PerRankModelParts parts, PeerSelection selection);

/// The rank with which `rank` exchanges in the exchange number `exchange` (from 0) of shift_one: the ranks of the first
/// half meet those of the second half in turn. `world_size` is even.
[[nodiscard]] std::int64_t shift_one_peer(std::int64_t rank, std::int64_t world_size, std::int64_t exchange);

/// Bagua's low-precision decentralized algorithm, in a ring of the ranks (docs/strategies.md, "Parameters of each
/// rank's own", has the formula). Each rank has replicas of its own parameters and of its two neighbours', in float32.
/// After the optimizer's step the rank sends the change of its parameters to both neighbours as bytes (byte_grad.hpp).
/// The part that the bytes keep is added to the replicas here and there, and the rank's parameters become its own
/// replica. Replicas of a resumed training of another number of ranks begin anew, with rank 0's parameters on all
/// ranks.
[[nodiscard]] std::unique_ptr<GradientSync> make_low_precision_decentralized(PerRankModelParts parts);

}  // namespace trainyard::strategy
