#include "worker/rank/seat.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <map>
#include <set>

namespace trainyard::rank {

std::optional<std::string> split_node_warning(std::span<const Seat> seats) {
  struct Node {
    std::set<std::int64_t> pods;
    std::size_t ranks = 0;
  };
  std::map<std::string, Node> nodes;
  for (const Seat& seat : seats) {
    Node& node = nodes[seat.node];
    node.pods.insert(seat.first_rank);
    ++node.ranks;
  }
  for (const auto& [name, node] : nodes) {
    if (node.pods.size() < 2) continue;
    return fmt::format(
        "node {} has {} ranks of this job in {} pods: between pods NCCL uses the network, and neither NVLink nor "
        "shared "
        "memory. Make one pod of each node: gpusPerPod {}, with as many replicas as nodes",
        name, node.ranks, node.pods.size(), node.ranks);
  }
  return std::nullopt;
}

std::string to_text(const Seat& seat) {
  return fmt::format("{} {}", seat.first_rank, seat.node);
}

Result<Seat> parse_seat(std::string_view text) {
  Seat seat;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seat.first_rank);
  const auto rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc{} || !rest.starts_with(' '))
    return fail(ErrorKind::invalid, "a rank did not say on which node it runs");
  seat.node = rest.substr(1);
  return seat;
}

}  // namespace trainyard::rank
