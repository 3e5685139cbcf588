#pragma once

#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/checkpoint/core/entry.hpp"

namespace trainyard::checkpoint {

/// What is known of `entry` but its bytes. ErrorKind::invalid for sparse and quantized tensors, which have no plain
/// bytes.
[[nodiscard]] Result<EntryInfo> info_of(const Entry& entry);

}  // namespace trainyard::checkpoint
