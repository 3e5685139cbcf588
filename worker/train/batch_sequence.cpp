#include "worker/train/batch_sequence.hpp"

namespace trainyard::train {

std::optional<data::BatchRequest> BatchSequence::next() {
  if (schedule_.is_finished(step_)) return std::nullopt;
  if (order_epoch_ != step_.epoch) {
    order_ = data::epoch_order(options_.samples, options_.seed, step_.epoch);
    order_epoch_ = step_.epoch;
  }
  data::BatchRequest request{
      .ids = data::step_samples(order_, schedule_.batch_begin(step_, batch_), options_.batch_size, options_.self),
      .epoch = step_.epoch};
  if (++batch_ == schedule_.batches(step_)) {
    step_ = schedule_.next(step_);
    batch_ = 0;
  }
  return request;
}

}  // namespace trainyard::train
