#pragma once

#include "checkpoint/format/entry.hpp"
#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"

namespace trainyard::checkpoint {

/// `entry` as a HostEntry without bytes. ErrorKind::invalid for sparse and quantized tensors, which have no plain
/// bytes, and for a shard of a scalar.
[[nodiscard]] Result<HostEntry> describe(const Entry& entry);

/// True when the tensor's values are bytes on the host, one after the other.
[[nodiscard]] bool has_plain_bytes(const torch::Tensor& tensor);

}  // namespace trainyard::checkpoint
