#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::strategy {

/// Waits for a collective. Two functions are used: `wait` is dist::wait_or_fail with its link and deadline filled in,
/// and the host waits for the result. `follow` is dist::StepsInFlight::follow, which only orders a device's current
/// stream after `work`. `what` names the collective in messages.
using WaitForWork = std::function<Result<void>(const c10::intrusive_ptr<c10d::Work>& work, std::string_view what)>;

}  // namespace trainyard::strategy
