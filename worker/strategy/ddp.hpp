#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "worker/strategy/buckets.hpp"
#include "worker/strategy/gradient_buckets.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/packed_tensors.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

struct DdpOptions {
  BucketLimits limits;
  /// After each forward pass the buffers (BatchNorm's running statistics) of all ranks become rank 0's, while the
  /// backward pass runs.
  bool broadcasts_buffers = true;
};

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

/// Distributed data parallel: each rank's backward pass fills buckets of gradients, and a bucket is reduced over all
/// ranks while the pass goes on. Gradients are scaled by 1 / world size before they are summed, as PyTorch's DDP does,
/// and are views of the buckets afterwards. A parameter that a rank's loss did not use counts as a zero gradient there;
/// one that no rank used has no gradient, so that optimizers leave it alone (PyTorch's find_unused_parameters, at no
/// cost to models that use all). Parameters must keep their storage; buffers too.
class Ddp final : public GradientSync {
 public:
  /// `communicator` must outlive the object. Parameters that need no gradient are broadcast at the start and not
  /// reduced.
  Ddp(NamedTensors parameters, NamedTensors buffers, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
      checkpoint::Communicator& communicator, WaitForWork wait, const DdpOptions& options = {});

  [[nodiscard]] Result<void> synchronize_model() override;
  void zero_gradients() override;
  void begin_backward() override;
  [[nodiscard]] Result<void> finish_gradients() override;

 private:
  NamedTensors parameters_;
  NamedTensors buffers_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  checkpoint::Communicator& communicator_;
  WaitForWork wait_;
  GradientBuckets gradients_;
  std::optional<BufferBroadcast> buffer_broadcast_;  // empty when there is nothing to send
  c10::intrusive_ptr<c10d::Work> buffers_under_way_;
  std::string buffers_error_;
};

}  // namespace trainyard::strategy
