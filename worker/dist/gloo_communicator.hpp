#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <memory>

#include "checkpoint/group/communicator.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// What waits in a communicator. That the training thread waits for others is a sign of life; that another thread does
/// says nothing about it, and must not hide that it hangs.
enum class UsedBy { training_thread, background_thread };

/// A communicator over a Gloo group that nobody else uses: collectives of other threads would get into its order.
/// `deadline`: of one call. `link` must outlive it.
[[nodiscard]] std::unique_ptr<checkpoint::Communicator> make_gloo_communicator(
    c10::intrusive_ptr<c10d::ProcessGroupGloo> group, std::chrono::milliseconds deadline, rank::RankLink& link,
    UsedBy used_by);

}  // namespace trainyard::dist
