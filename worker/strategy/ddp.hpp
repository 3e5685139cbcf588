#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "worker/strategy/bucket_assignment.hpp"
#include "worker/strategy/bucket_exchange.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/packed_tensors.hpp"
#include "worker/strategy/per_rank_tensors.hpp"
#include "worker/strategy/sync_batch_norm.hpp"
#include "worker/strategy/tuned_buckets.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

struct DdpOptions {
  BucketLimits limits;
  /// The sizes of buckets that the first steps try, in place of `limits`. Not with an exchange that has a state.
  std::optional<TuningOptions> tuning;
  /// After the last forward pass of each step all ranks get rank 0's buffers (such as BatchNorm's running statistics),
  /// while the backward pass runs. False: each rank keeps its own, and its part of a checkpoint has them.
  bool broadcasts_buffers = true;
  /// Batch normalisation takes its statistics over the batches of all ranks.
  bool synchronizes_batch_norm = false;
  ExchangeTimeline* timeline = nullptr;  ///< Gets the times of the exchanges, and outlives the Ddp.
  /// The exchange of the gradients. Given the names of the parameters that need gradients.
  std::function<MakeExchange(std::vector<std::string> names)> exchange;  ///< Not set: make_all_reduce.
  WaitForWork follow;               ///< For the collectives of usual steps. Not set: the constructor's `wait`.
  bool exchanges_gradients = true;  ///< False: another object does, or each rank keeps its own.
  bool shards_parameters = false;   ///< For Sharded: a rank has whole parameters only while operators use them.
};

/// Sends rank 0's tensors to the other ranks in the background.
class BufferBroadcast {
 public:
  BufferBroadcast(const std::vector<torch::Tensor>& tensors, c10::intrusive_ptr<c10d::ProcessGroup> process_group);

  /// Starts to send the tensors' present values. May throw c10::Error when the group is broken.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin();
  /// Copies rank 0's values into the tensors. To be called once the current stream is ordered after the work of
  /// begin(), or that work is done.
  void finish();
  /// The bytes that begin() sends.
  [[nodiscard]] std::uint64_t bytes() const { return packed_.bytes().defined() ? packed_.bytes().nbytes() : 0; }
  /// Starts a small message after which every rank has the values. A rank that has them, or has sent them, would
  /// otherwise wait for the last one in its next collective, and two names would look like different collectives
  /// (worker/launcher/collective_mismatch.hpp). For large values, which Gloo passes on from rank to rank. May throw as
  /// begin().
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> meet();

 private:
  PackedTensors packed_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
};

/// Gives every rank rank 0's `tensors`, which are on one device, in messages of at most 32 MiB or of one larger tensor.
/// `what` names them in messages. Errors: those of `wait`; unavailable when nothing could be sent. Throws what this
/// rank's own device throws.
[[nodiscard]] Result<void> broadcast_from_rank0(const NamedTensors& tensors,
                                                const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                                const WaitForWork& wait, std::string_view what);

/// Distributed data parallel: each rank's backward pass fills buckets of gradients, and buckets are reduced over all
/// ranks while the pass goes on (gradient_buckets.hpp). Gradients are scaled by 1 / world size before they are summed,
/// as in PyTorch's DDP, and are views of the buckets afterwards. Parameters and buffers must keep their storage.
///
/// A rank whose loss did not use a parameter adds a zero gradient to the parameter's mean. A parameter that no rank
/// used has no gradient, so that optimizers skip it, as with PyTorch's find_unused_parameters.
class Ddp final : public GradientSync {
 public:
  /// `communicator` must outlive the object. Parameters that need no gradient are only broadcast at the start.
  Ddp(NamedTensors parameters, NamedTensors buffers, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
      checkpoint::Communicator& communicator, WaitForWork wait, const DdpOptions& options = {});

  [[nodiscard]] Result<void> synchronize_model() override;
  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override;
  void zero_gradients() override;
  void begin_forward() override;
  void end_forward() override;
  void begin_backward(bool is_last_batch) override;
  [[nodiscard]] Result<void> finish_gradients() override;
  [[nodiscard]] NamedTensors state() const override;
  void before_save() override;
  [[nodiscard]] Result<void> after_restore() override;
  [[nodiscard]] std::uint64_t exchanged_bytes() const override;

 private:
  [[nodiscard]] Result<void> broadcast(const NamedTensors& tensors, std::string_view what) const {
    return broadcast_from_rank0(tensors, process_group_, wait_, what);
  }

  NamedTensors parameters_;
  NamedTensors buffers_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  checkpoint::Communicator& communicator_;
  WaitForWork wait_;
  WaitForWork follow_;
  TunedBuckets gradients_;
  std::optional<SyncBatchNorm> batch_norm_;          // with synchronizes_batch_norm
  std::optional<PerRankTensors> own_buffers_;        // where buffers are not sent
  std::optional<BufferBroadcast> buffer_broadcast_;  // empty when there is nothing to send
  std::uint64_t buffer_bytes_ = 0;                   // sent so far
  c10::intrusive_ptr<c10d::Work> buffers_under_way_;
  std::string buffers_error_;
  std::exception_ptr own_failure_;  // of this rank's device, while buffers were sent
};

}  // namespace trainyard::strategy
