#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "include/trainyard/process_set.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::train {

struct ProcessSetParts {
  std::string name;
  std::vector<std::int64_t> ranks;  ///< Ascending.
  std::int64_t rank = 0;            ///< This rank's number in the job.
  /// The ranks of the set, in their order. Undefined on ranks outside the set, and in a set of one rank.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group{};
  strategy::WaitForWork wait{};
};

/// A set whose collectives first compare what the members are about to do, since a collective of unequal tensors would
/// hang or mix up bytes. They throw strategy::ExchangeFailed where the exchange fails.
[[nodiscard]] std::unique_ptr<const ProcessSet> make_process_set(ProcessSetParts parts);

}  // namespace trainyard::train
