#include "operator/plan/node_avoidance.hpp"

#include <algorithm>

namespace trainyard::plan {

std::vector<std::string> next_avoided_nodes(const Observed& observed, const AttemptEnd& end) {
  std::vector<std::string> nodes = end.lost_nodes;
  for (const std::string& node : observed.job.status.avoided_nodes) {
    const auto known = observed.nodes.find(node);
    const bool is_back = known != observed.nodes.end() && known->second.is_ready;
    if (!is_back && std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  }
  if (nodes.size() > avoided_nodes_max) nodes.resize(avoided_nodes_max);
  return nodes;
}

std::vector<std::string> avoided_host_names(const Observed& observed) {
  std::vector<std::string> host_names;
  for (const std::string& node : observed.job.status.avoided_nodes) {
    const auto known = observed.nodes.find(node);
    const bool is_labelled = known != observed.nodes.end() && !known->second.host_name.empty();
    host_names.push_back(is_labelled ? known->second.host_name : node);
  }
  return host_names;
}

std::optional<std::chrono::milliseconds> time_until_nodes_are_forgiven(const api::TrainingJobStatus& status, Time now) {
  if (status.avoided_nodes.empty() || status.phase != api::Phase::pending || status.reason != "Unschedulable" ||
      status.attempts.empty() || !status.attempts.back().start) {
    return std::nullopt;
  }
  const Time start = std::max(*status.attempts.back().start, status.restart_not_before.value_or(Time::min()));
  return std::max(std::chrono::milliseconds{0}, start + avoidance_max - now);
}

}  // namespace trainyard::plan
