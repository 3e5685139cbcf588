#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <functional>
#include <string_view>

#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// Batch normalisation over the batches of all ranks, as torch.nn.SyncBatchNorm. While it is active on a thread, every
/// batch_norm in training mode that the thread calls, by whatever module, takes mean and variance over all ranks, in
/// its backward pass too. All ranks must call their layers in one order. A lost rank is thrown as ExchangeFailed.
class SyncBatchNorm {
 public:
  /// `follow` orders the current stream after a collective. Replaces torch's batch_norm in this process; where no
  /// object is active it does what torch's does.
  SyncBatchNorm(c10::intrusive_ptr<c10d::ProcessGroup> process_group, WaitForWork follow);
  ~SyncBatchNorm();
  SyncBatchNorm(const SyncBatchNorm&) = delete;
  SyncBatchNorm& operator=(const SyncBatchNorm&) = delete;

  /// Makes this object the calling thread's active one.
  void activate();
  /// After it no object is active on the calling thread.
  static void deactivate();

  /// float64 [n] of each rank, as float64 [world size, n].
  [[nodiscard]] torch::Tensor gather(const torch::Tensor& own);
  /// Sums `tensor` over the ranks, in place.
  void sum(const torch::Tensor& tensor);

  /// The bytes of all tensors that this rank has given to collectives.
  [[nodiscard]] std::uint64_t exchanged_bytes() const { return exchanged_bytes_; }

 private:
  void exchange(const torch::Tensor& tensor, std::string_view what,
                const std::function<c10::intrusive_ptr<c10d::Work>()>& send);

  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  WaitForWork follow_;
  std::uint64_t exchanged_bytes_ = 0;
};

}  // namespace trainyard::strategy
