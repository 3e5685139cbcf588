#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/cause.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

inline constexpr std::size_t avoided_nodes_max = 16;
/// How long a group that finds no room without the avoided nodes waits before these are tried again.
inline constexpr std::chrono::seconds avoidance_max{60};

/// Nodes for the next attempt to keep off: those lost now, and those lost before that are not known to be back.
[[nodiscard]] std::vector<std::string> next_avoided_nodes(const Observed& observed, const AttemptEnd& end);

/// The label kubernetes.io/hostname of each node that the job's pods keep off, in the order of status.avoidedNodes. For
/// a node that is not known it is the node's name, as most clusters set it.
[[nodiscard]] std::vector<std::string> avoided_host_names(const Observed& observed);

/// In a small cluster there may be no room without them. How much longer to hold on to the avoided nodes; 0: give them
/// up; empty: the attempt does not wait because of them.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_nodes_are_forgiven(
    const api::TrainingJobStatus& status, Time now);

}  // namespace trainyard::plan
