#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/checkpoint/core/entry.hpp"

namespace trainyard::checkpoint {

/// A whole copy of a state's entries, as contiguous bytes in host memory that a checkpoint is read into.
class HostState {
 public:
  /// ErrorKind::invalid for sparse or quantized tensors, internal for what torch refuses (out of memory, a device that
  /// failed).
  [[nodiscard]] static Result<HostState> copy_of(const State& state);

  [[nodiscard]] std::span<const HostEntry> entries() const { return entries_; }

  /// Puts the bytes back into `state`'s tensors, which must be those that this was made of.
  [[nodiscard]] Result<void> copy_to(State& state) const;

 private:
  std::vector<torch::Tensor> tensors_;  // Own the bytes that entries_ point at.
  std::vector<HostEntry> entries_;
};

}  // namespace trainyard::checkpoint
