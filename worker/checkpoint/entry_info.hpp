#pragma once

#include "checkpoint/format/entry.hpp"
#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"

namespace trainyard::checkpoint {

/// `entry` as the checkpoint knows it, without bytes. ErrorKind::invalid for sparse and quantized tensors, which have
/// no plain bytes, and for a shard of a tensor that has no rows.
[[nodiscard]] Result<HostEntry> describe(const Entry& entry);

/// Whether the tensor's bytes lie on the host, one after the other, and say what the tensor says.
[[nodiscard]] bool has_plain_bytes(const torch::Tensor& tensor);

}  // namespace trainyard::checkpoint
