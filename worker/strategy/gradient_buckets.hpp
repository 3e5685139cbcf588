#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/strategy/bucket_assignment.hpp"
#include "worker/strategy/bucket_exchange.hpp"
#include "worker/strategy/exchange_timeline.hpp"
#include "worker/strategy/gradient_hooks.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// Reduces the gradients of parameters over the ranks while a backward pass computes them.
///
/// A bucket is sent once all of its parameters have their gradients and all earlier buckets are sent, so that every
/// rank sends the buckets in one order, in whatever order its gradients come. Only the last backward pass of a step
/// fills and sends buckets. Then finish() fills and sends those that are left, with zeros for parameters that no pass
/// used; after send_at_end() it sends all of them. The strategy `sharded` sends its buckets in this order too, but each
/// one only after the exchange of the one before it (sharded_gradients.hpp). With its option shardParameters a backward
/// pass sends a bucket only once it is full on each rank (gathered_parameters.hpp).
///
/// The functions are called from the training thread. The hooks that fill and send buckets run on the thread of the
/// backward pass.
class GradientBuckets {
 public:
  /// `parameters`: leaves that need a gradient, on one device, in the same order on all ranks, dense in any memory
  /// format. Throws c10::Error for a parameter that is not dense. `make_exchange` is called once.
  GradientBuckets(std::vector<torch::Tensor> parameters, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                  const BucketLimits& limits, const MakeExchange& make_exchange = make_all_reduce);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// From now on finish() sends all buckets, after the backward pass. ddp asks for it with syncBatchNorm, whose layers
  /// begin collectives of their own in the backward pass: all ranks must begin the same collectives in the same order,
  /// but the moment at which a bucket is full differs between ranks whose losses use different parameters.
  void send_at_end() { sends_at_end_ = true; }
  /// From now on `timeline`, which outlives the object, gets the times of each bucket. To be called once.
  void record_in(ExchangeTimeline& timeline);
  /// Clears the last step's gradients.
  void zero();
  /// Tells whether the next backward pass is the last one of its step. The last pass fills and sends buckets; the
  /// others only add to the gradients. A step of one backward pass need not call it.
  void begin_backward(bool is_last_batch) { is_last_batch_ = is_last_batch; }
  /// Fills and sends the buckets that were not sent during the backward pass, with zeros for parameters that no pass of
  /// the step used. Then waits for each bucket: by `follow`, which makes only the calling thread's CUDA stream wait,
  /// or, where this rank's loss left out a parameter, by `wait`, which makes the thread itself wait. The thread then
  /// reads from the device whether another rank used the parameter.
  ///
  /// Errors: those of `wait` and `follow`; unavailable when a bucket could not be sent. Throws what this rank's own
  /// device or program threw.
  [[nodiscard]] Result<void> finish(const WaitForWork& wait, const WaitForWork& follow);

  [[nodiscard]] const BucketExchange& exchange() const { return *exchange_; }
  [[nodiscard]] BucketExchange& exchange() { return *exchange_; }

 private:
  struct Slot {  // a parameter's gradient in its bucket
    std::size_t bucket = 0;
    std::size_t place = 0;  // in the bucket's order
    torch::Tensor view;     // of the bucket's tensor, with the parameter's shape and strides
    bool is_ready = false;  // in this step
  };
  struct Bucket {
    BucketIndices parameters;
    torch::Tensor flat;  // the parameters' gradients, then `used`; the exchange sums both
    torch::Tensor used;  // one number per parameter: zero where this rank's loss did not use the parameter
    std::size_t ready_count = 0;
    std::size_t track = 0;  // of timeline_
    c10::intrusive_ptr<c10d::Work> work;
  };

  void take_scale();
  void take_gradient(std::size_t parameter);
  void copy_into_bucket(std::size_t parameter);
  void send_full_buckets();
  void send(std::size_t bucket);
  [[nodiscard]] Result<void> finish_exchange(const WaitForWork& wait);
  /// Keeps `error`, thrown while `bucket` was sent, for finish().
  void keep(const std::exception& error, const Bucket& bucket);
  /// The failure that keep() has kept.
  [[nodiscard]] Result<void> kept_failure() const;
  void take_gradients_used_elsewhere(const Bucket& bucket);

  std::vector<torch::Tensor> parameters_;
  std::unique_ptr<BucketExchange> exchange_;
  double scale_ = 1.0;  // the exchange's factor in this step
  torch::Tensor scale_factor_;
  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  bool is_last_batch_ = true;
  bool sends_at_end_ = false;
  ExchangeTimeline* timeline_ = nullptr;  // where nothing is recorded
  std::size_t next_bucket_ = 0;           // the first that is not sent
  std::string send_error_;                // why a bucket could not be sent; nothing is sent after it
  std::exception_ptr own_failure_;        // set where that was a failure of this rank's device or program
  std::optional<GradientHooks> hooks_;    // last: they call this object
};

}  // namespace trainyard::strategy
