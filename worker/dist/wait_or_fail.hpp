#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// Waits until the collective is done or the group is broken. Sends beats meanwhile, so that the launchers find the one
/// rank that is stuck and not those that wait for it. On a device it sends none before the work that the calling thread
/// has queued on its current stream is done: until then the rank waits for itself. For a collective on the host the
/// caller may say in `waits_for_others` when to send them; without it they are sent all the time. After success the
/// results may be read on the host (CPU) or used on the current stream (CUDA). `what` names the collective in messages.
///
/// Throws as torch does when this rank's device has failed, or a kernel of its program (failed_part.hpp), and what
/// `waits_for_others` throws.
///
/// Errors: cancelled when the launcher reports that the group is broken (with the launcher's message), unavailable when
/// the collective failed (a peer's connection is lost), timeout after `deadline`, if there is one. The collective is
/// then abandoned and may still run: its tensors must not be used any more, and the process should end by
/// RankLink::exit.
[[nodiscard]] Result<void> wait_or_fail(const c10::intrusive_ptr<c10d::Work>& work, rank::RankLink& link,
                                        std::optional<std::chrono::milliseconds> deadline, std::string_view what,
                                        const std::function<bool()>& waits_for_others = {});

}  // namespace trainyard::dist
