#include "worker/strategy/tuned_buckets.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <exception>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::strategy {
namespace {

constexpr double bytes_per_mib = 1 << 20;

}  // namespace

TunedBuckets::TunedBuckets(std::vector<torch::Tensor> parameters, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                           const BucketLimits& limits, MakeExchange make_exchange, std::optional<TuningOptions> tuning)
    : parameters_{std::move(parameters)},
      process_group_{std::move(process_group)},
      make_exchange_{std::move(make_exchange)} {
  if (tuning) {
    now_ = std::move(tuning->now);
    tuning_.emplace(std::move(tuning->plan));
    candidate_ = tuning_->candidate();
  }
  make_buckets(tuning_ ? tuning_->limits() : limits);
}

void TunedBuckets::make_buckets(const BucketLimits& limits) {
  if (buckets_) past_bytes_ += buckets_->exchange().exchanged_bytes();
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();  // They are views of the old buckets.
  buckets_.reset();  // First, so that the memory of both is never needed at once.
  buckets_ = std::make_unique<GradientBuckets>(parameters_, process_group_, limits, make_exchange_);
  if (sends_at_end_) buckets_->send_at_end();
  if (timeline_ != nullptr) buckets_->record_in(*timeline_);
}

void TunedBuckets::send_at_end() {
  sends_at_end_ = true;
  buckets_->send_at_end();
}

void TunedBuckets::record_in(ExchangeTimeline& timeline) {
  timeline_ = &timeline;
  buckets_->record_in(timeline);
}

void TunedBuckets::zero() {
  // A restored state may have moved the tuning on.
  if (tuning_ && tuning_->candidate() != candidate_) {
    candidate_ = tuning_->candidate();
    make_buckets(tuning_->limits());
  }
  buckets_->zero();
  if (!is_tuning()) return;
  bytes_before_step_ = exchanged_bytes();
  step_began_ = now_();
}

Result<void> TunedBuckets::finish(const WaitForWork& wait, const WaitForWork& follow) {
  if (!is_tuning()) return buckets_->finish(wait, follow);
  TRY(buckets_->finish(wait, wait));
  return end_tuned_step(wait);
}

Result<void> TunedBuckets::end_tuned_step(const WaitForWork& wait) {
  const auto bytes = static_cast<std::int64_t>(exchanged_bytes() - bytes_before_step_);
  const auto sample = tuning_->add_step(bytes, now_() - step_began_);
  if (sample && process_group_->getRank() == 0) log_sample(*sample);
  if (!tuning_->is_done()) return {};
  TRY(take_decision_of_rank0(wait));
  if (process_group_->getRank() == 0) {
    logging::info("bucket size chosen", {{"bucketMiB", static_cast<double>(tuning_->limits().bytes) / bytes_per_mib}});
  }
  return {};
}

void TunedBuckets::log_sample(const TuningSample& sample) const {
  logging::info("bucket size tried",
                {{"bucketMiB", static_cast<double>(tuning_->limits_of(sample.candidate).bytes) / bytes_per_mib},
                 {"mibPerSecond", sample.bytes_per_second() / bytes_per_mib}});
}

Result<void> TunedBuckets::take_decision_of_rank0(const WaitForWork& wait) {
  try {
    std::vector<torch::Tensor> message{tuning_->state()};
    return wait(process_group_->broadcast(message, {.rootRank = 0}), "the broadcast of the bucket size");
  } catch (const std::exception& error) {  // The numbers are on the host: no device of this rank can have failed.
    return fail(ErrorKind::unavailable, fmt::format("sending the bucket size: {}", dist::message_of(error)));
  }
}

NamedTensors TunedBuckets::state() const {
  NamedTensors state = buckets_->exchange().state();
  if (tuning_) state.emplace_back("autotune", tuning_->state());
  return state;
}

std::vector<torch::Tensor> TunedBuckets::common_state() const {
  std::vector<torch::Tensor> state = buckets_->exchange().common_state();
  if (tuning_) state.push_back(tuning_->state());
  return state;
}

}  // namespace trainyard::strategy
