#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/cause.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

inline constexpr std::size_t avoided_nodes_max = 16;
/// How long a group waits for room on other nodes before it may use the avoided nodes again.
inline constexpr std::chrono::seconds avoidance_max{60};

/// The nodes that the next attempt avoids: those lost now, and those lost before that are not known to be ready again.
[[nodiscard]] std::vector<std::string> next_avoided_nodes(const Observed& observed, const AttemptEnd& end);

/// The label kubernetes.io/hostname of each avoided node, in the order of status.avoidedNodes. For an unknown node it
/// is the node's name, which is the label's value in most clusters.
[[nodiscard]] std::vector<std::string> avoided_host_names(const Observed& observed);

/// Time until the attempt may use the avoided nodes again, because a small cluster may have no room without them; 0:
/// now. Empty: the attempt does not wait for room.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_nodes_are_forgiven(
    const api::TrainingJobStatus& status, Time now);

}  // namespace trainyard::plan
