#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// The questions that a watched wait asks again and again.
struct Watched {
  std::function<bool()> is_done;           ///< Pauses for a short time where the answer is no.
  std::function<bool()> waits_for_others;  ///< False while this rank's own work is not done.
};

/// Waits until `watched.is_done()` or the group is broken, and sends beats while this rank waits for others: so the
/// rank that hangs is the one that is silent (worker/launcher/supervisor.hpp). `what` names the thing that is waited
/// for in messages. A long wait of a training thread for others is logged, and reported to the launcher for
/// worker/launcher/collective_mismatch.hpp. Throws what the two functions throw.
///
/// Errors: cancelled when the launcher reports that the group is broken, with the launcher's message; timeout after
/// `deadline`, if there is one.
[[nodiscard]] Result<void> wait_watched(const Watched& watched, rank::RankLink& link,
                                        std::optional<std::chrono::milliseconds> deadline, std::string_view what);

/// `ask`, asked twice with a pause between where the first answer is no. For work on a device, which has no callback on
/// the host.
[[nodiscard]] bool ask_device(const std::function<bool()>& ask);

/// An event at the end of what is queued so far on the calling thread's current stream of `device`.
[[nodiscard]] c10::Event mark_queue(c10::Device device);

/// ErrorKind::unavailable: the collective `what` failed.
[[nodiscard]] tl::unexpected<Error> lost_collective(std::string_view what, const std::string& why);

}  // namespace trainyard::dist
