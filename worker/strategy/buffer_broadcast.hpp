#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <vector>

#include "worker/strategy/packed_tensors.hpp"

namespace trainyard::strategy {

/// Sends rank 0's tensors to the other ranks while something else runs.
class BufferBroadcast {
 public:
  BufferBroadcast(std::vector<torch::Tensor> tensors, c10::intrusive_ptr<c10d::ProcessGroup> process_group);

  /// Takes the tensors' values of now. May throw c10::Error when the group is broken.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin();
  /// Puts rank 0's values into the tensors, once the work of begin() is done.
  void finish();

 private:
  PackedTensors packed_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
};

}  // namespace trainyard::strategy
