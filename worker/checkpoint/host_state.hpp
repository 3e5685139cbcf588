#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"

namespace trainyard::checkpoint {

/// What this rank holds of a state's entries, as contiguous bytes in host memory that a checkpoint is read into: the
/// tensors' own memory where they have such, else memory beside them.
class HostState {
 public:
  /// Of the entries that are kept beside their tensors, only each rank's own hold what the tensors do: a checkpoint may
  /// lack those. ErrorKind::invalid for sparse or quantized tensors, internal for what torch refuses (out of memory, a
  /// device that failed).
  [[nodiscard]] static Result<HostState> of(const State& state);

  [[nodiscard]] std::span<const HostEntry> entries() const { return entries_; }

  /// Puts what was kept beside them into `state`'s tensors, which must be those that this was made of.
  [[nodiscard]] Result<void> copy_to(State& state) const;

 private:
  std::vector<torch::Tensor> tensors_;  // Own the bytes that entries_ point at, or share them with the state's.
  std::vector<HostEntry> entries_;
};

}  // namespace trainyard::checkpoint
