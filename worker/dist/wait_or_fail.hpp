#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <string_view>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// Waits until the collective is done, and no longer than the group holds together. Keeps telling the launcher that
/// this rank is alive and waits for others, so that of a stuck group the rank that is stuck is found. After success the
/// results may be read on the host (CPU) or used on the current stream (CUDA). Errors: cancelled when the launcher says
/// that the group is broken (its sentence is the message), unavailable when the collective failed (a peer's connection
/// is lost), timeout after `deadline`. The work is then abandoned, not ended: its tensors must not be used any more,
/// and the process should end by RankLink::exit. `what` names the collective in messages: "the gradients' all-reduce of
/// step 12".
[[nodiscard]] Result<void> wait_or_fail(const c10::intrusive_ptr<c10d::Work>& work, rank::RankLink& link,
                                        std::chrono::milliseconds deadline, std::string_view what);

}  // namespace trainyard::dist
