#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::dist {

/// The ranks that one launcher has started: `size` of them, numbered from `first_rank` on.
struct Pod {
  std::int64_t first_rank = 0;
  std::int64_t size = 1;
  bool operator==(const Pod&) const = default;
};

/// The pod as text, for the other ranks.
[[nodiscard]] std::string to_text(const Pod& pod);

/// The pods of a group, in the order of their ranks. `texts`: what each rank's to_text() wrote of its own pod, by rank.
/// ErrorKind::invalid when the ranks do not agree, or another text came: it names the rank, and is the same on all
/// ranks. Pure.
[[nodiscard]] Result<std::vector<Pod>> agree_on_pods(std::span<const std::string> texts);

/// The process groups of the pods, as one rank has them.
struct PodGroups {
  std::vector<Pod> pods;  ///< In the order of their ranks.
  /// The ranks of this rank's pod, among which the pod's first rank has number 0. Where there is one pod, this is the
  /// process group of all ranks.
  c10::intrusive_ptr<c10d::ProcessGroup> own;
  /// The first ranks of all pods, by pod. The other ranks have an object of the same size, and of their first rank's
  /// number, whose collectives throw. So has each rank where there is one pod.
  c10::intrusive_ptr<c10d::ProcessGroup> first_ranks;

  [[nodiscard]] bool is_one_pod() const { return pods.size() == 1; }
  [[nodiscard]] bool is_first_rank() const { return own->getRank() == 0; }
};

/// Makes a process group of `size` ranks, in which this rank has the number `rank`. The members use one `name`.
using MakeProcessGroup = std::function<c10::intrusive_ptr<c10d::ProcessGroup>(const std::string& name,
                                                                              std::int64_t rank, std::int64_t size)>;

/// The process groups of `pods` on one rank of `all`, the process group of all ranks. `make` is called for those of
/// several ranks that are not `all`, in one order on all ranks. Throws what `make` throws.
[[nodiscard]] PodGroups make_pod_groups(std::vector<Pod> pods, const c10::intrusive_ptr<c10d::ProcessGroup>& all,
                                        const MakeProcessGroup& make);

}  // namespace trainyard::dist
