#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "worker/strategy/bucket_exchange.hpp"
#include "worker/strategy/bucket_tuning.hpp"
#include "worker/strategy/gradient_buckets.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

struct TuningOptions {
  TuningPlan plan;
  std::function<Instant()> now;
};

/// GradientBuckets whose size can be tuned: between two steps they are made anew when a BucketTuning asks for another
/// size. A step's time is measured from zero() to the end of finish(). While sizes are tried, finish() waits for the
/// device, so that the time is that of the exchange too. Rank 0's measurements decide for all ranks, and rank 0 logs
/// each sample.
class TunedBuckets {
 public:
  /// As the constructor of GradientBuckets. With `tuning`, `limits` are not used, and the exchanges that
  /// `make_exchange` makes have no state.
  TunedBuckets(std::vector<torch::Tensor> parameters, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
               const BucketLimits& limits, MakeExchange make_exchange, std::optional<TuningOptions> tuning);

  /// As BucketExchange::adapt(). Not with `tuning`.
  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) {
    return buckets_->exchange().adapt(std::move(optimizer));
  }
  /// As GradientBuckets::send_at_end().
  void send_at_end();
  /// As GradientBuckets::record_in(), also for buckets that are made later.
  void record_in(ExchangeTimeline& timeline);
  void zero();
  void begin_backward(bool is_last_batch) { buckets_->begin_backward(is_last_batch); }
  /// As GradientBuckets::finish(). The step that ends the tuning also sends rank 0's measurements to the other ranks.
  [[nodiscard]] Result<void> finish(const WaitForWork& wait, const WaitForWork& follow);

  /// The state of the exchange and of the tuning.
  [[nodiscard]] NamedTensors state() const;
  /// BucketExchange::common_state(), and the state of the tuning.
  [[nodiscard]] std::vector<torch::Tensor> common_state() const;
  [[nodiscard]] std::uint64_t exchanged_bytes() const { return past_bytes_ + buckets_->exchange().exchanged_bytes(); }

 private:
  [[nodiscard]] bool is_tuning() const { return tuning_ && !tuning_->is_done(); }
  void make_buckets(const BucketLimits& limits);
  [[nodiscard]] Result<void> end_tuned_step(const WaitForWork& wait);
  void log_sample(const TuningSample& sample) const;
  [[nodiscard]] Result<void> take_decision_of_rank0(const WaitForWork& wait);

  std::vector<torch::Tensor> parameters_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  MakeExchange make_exchange_;
  std::function<Instant()> now_;        // not set without tuning
  std::optional<BucketTuning> tuning_;  // nothing: the buckets stay as they are
  std::size_t candidate_ = 0;           // of the tuning, in buckets_
  std::unique_ptr<GradientBuckets> buckets_;
  std::uint64_t past_bytes_ = 0;  // given to collectives by earlier buckets
  bool sends_at_end_ = false;
  ExchangeTimeline* timeline_ = nullptr;  // where nothing is recorded
  Instant step_began_;
  std::uint64_t bytes_before_step_ = 0;
};

}  // namespace trainyard::strategy
