#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/checkpoint/core/entry.hpp"

namespace trainyard::checkpoint {

/// A state's entries as contiguous bytes in host memory.
class HostState {
 public:
  /// Entries that lie so already are looked at where they are: `state` must not change while this is in use.
  /// ErrorKind::invalid for sparse or quantized tensors, internal for what torch refuses (out of memory, a device that
  /// failed).
  [[nodiscard]] static Result<HostState> view_of(const State& state);
  /// A copy of every entry.
  [[nodiscard]] static Result<HostState> copy_of(const State& state);

  [[nodiscard]] std::span<const HostEntry> entries() const { return entries_; }

  /// Puts the bytes back into `state`'s tensors, which must be those that this was made of.
  [[nodiscard]] Result<void> copy_to(State& state) const;

 private:
  [[nodiscard]] static Result<HostState> make(const State& state, bool is_copy);

  std::vector<torch::Tensor> tensors_;  // Own the bytes that entries_ point at.
  std::vector<HostEntry> entries_;
};

}  // namespace trainyard::checkpoint
