#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"

namespace trainyard::checkpoint {

/// `entry` as a HostEntry without bytes. ErrorKind::invalid for sparse and quantized tensors, which have no plain
/// bytes, and for a shard of a scalar.
[[nodiscard]] Result<HostEntry> describe(const Entry& entry);

/// True when the tensor's values are bytes on the host, one after the other.
[[nodiscard]] bool has_plain_bytes(const torch::Tensor& tensor);

/// This rank's part of a state as contiguous bytes in host memory, into which a checkpoint is read. A tensor with
/// contiguous bytes in host memory gives its own memory; another tensor gets a buffer.
class HostState {
 public:
  /// Fills only the buffers of per_rank entries with the tensors' values, since a checkpoint may lack those entries.
  /// ErrorKind::invalid for sparse or quantized tensors, internal for what torch reports (out of memory, a failed
  /// device).
  [[nodiscard]] static Result<HostState> of(const State& state);

  [[nodiscard]] std::span<const HostEntry> entries() const { return entries_; }

  /// Copies the buffers into the tensors of `state`, from which of() made this HostState.
  [[nodiscard]] Result<void> copy_to(State& state) const;

 private:
  std::vector<torch::Tensor>
      tensors_;  // The buffers, or tensors that share the state's memory: entries_ point into them.
  std::vector<HostEntry> entries_;
};

}  // namespace trainyard::checkpoint
