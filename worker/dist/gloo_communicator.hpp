#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <memory>

#include "checkpoint/group/communicator.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// The thread that waits in a communicator. A waiting training thread sends beats. A background thread sends none,
/// because its beats would hide that the training thread hangs.
enum class UsedBy { training_thread, background_thread };

/// A communicator over `group`, which nothing else may use: collectives of other users would disturb the order.
/// `deadline`: of one call. `link` must outlive the communicator.
[[nodiscard]] std::unique_ptr<checkpoint::Communicator> make_gloo_communicator(
    c10::intrusive_ptr<c10d::ProcessGroupGloo> group, std::chrono::milliseconds deadline, rank::RankLink& link,
    UsedBy used_by);

}  // namespace trainyard::dist
