#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/device_spec.hpp"
#include "common/result.hpp"

namespace trainyard::dist {

/// What a training asks of the devices of one node.
struct DeviceRequest {
  api::DeviceSpec spec;
  std::int64_t ranks = 1;  ///< The ranks of the node.
  /// The node's one rank trains on all GPUs that are chosen, as with dp and ddp2; else each rank trains on one.
  bool is_of_one_rank = false;
  std::string node;  ///< For messages.
};

/// The numbers of the GPUs that the ranks of a node train on: number i of them is for local rank i. Empty: they train
/// on the CPU. `gpu_count`: the GPUs that they may use. Pure, and equal on all ranks of a node. ErrorKind::invalid
/// names what is asked for and what there is.
[[nodiscard]] Result<std::vector<std::int64_t>> choose_gpus_of_node(const DeviceRequest& request,
                                                                    std::int64_t gpu_count);

}  // namespace trainyard::dist
