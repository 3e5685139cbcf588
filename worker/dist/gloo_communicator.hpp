#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <memory>

#include "worker/dist/communicator.hpp"
#include "worker/launcher/rank_link.hpp"

namespace trainyard::dist {

/// A communicator over a Gloo group that nobody else uses: collectives of other threads would get into its order.
/// `deadline`: of one call. `link` must outlive it.
[[nodiscard]] std::unique_ptr<Communicator> make_gloo_communicator(c10::intrusive_ptr<c10d::ProcessGroupGloo> group,
                                                                   std::chrono::milliseconds deadline,
                                                                   launcher::RankLink& link);

}  // namespace trainyard::dist
