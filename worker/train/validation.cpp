#include "worker/train/validation.hpp"

#include <utility>

#include "common/try.hpp"
#include "worker/data/batch_loader.hpp"
#include "worker/train/batch_sequence.hpp"
#include "worker/train/watched_metric.hpp"

namespace trainyard::train {

Result<bool> Validation::run(const EvaluationRounds& rounds) {
  const auto values = TRY(evaluate(rounds));
  is_best_ = false;
  if (!values) {
    is_owed_ = parts_.has_callbacks || decides_by_validation(parts_.training);
    return false;
  }
  is_owed_ = false;
  values_ = *values;
  plateau_ = after_validation(parts_.training, parts_.communicator.world_size(), plateau_, values_);
  if (const auto& stopping = parts_.training.early_stopping)
    stopping_ = after_validation(*stopping, stopping_, values_);
  if (const auto* spec = parts_.checkpoint_spec; spec != nullptr && spec->keep.best) {
    // A metric that the validations have had may be missing in some of them.
    if (!std::exchange(has_best_metric_, true) && !best_)
      (void)watched_metric(values_, spec->keep.best->metric, best_metric_field);
    const auto better = spec->every.best ? better_value(*spec->keep.best, values_, best_) : std::nullopt;
    if (better) best_ = better;
    is_best_ = better.has_value();
  }
  return true;
}

void Validation::restore(const TrainingValues& values) {
  values_ = values.metrics;
  best_ = values.best;
  plateau_ = values.plateau;
  stopping_ = values.stopping;
  is_owed_ = values.owes_validation;
}

void Validation::add_to(TrainingValues& values) const {
  values.metrics = values_;
  values.best = best_;
  values.plateau = plateau_;
  values.stopping = stopping_;
  values.owes_validation = is_owed_;
}

/// Nothing when `rounds` ended it early.
Result<std::optional<observe::MetricValues>> Validation::evaluate(const EvaluationRounds& rounds) {
  const EvaluationOptions options{.batch_size = parts_.training.batch_size,
                                  .device = parts_.device,
                                  .loader_threads = loader_threads(parts_.training.data, *parts_.data),
                                  .format = number_format(parts_.training),
                                  .step = [this](const Batch& batch, std::int64_t index) {
                                    return parts_.replicas != nullptr ? parts_.replicas->validation_step(batch, index)
                                                                      : parts_.module.validation_step(batch, index);
                                  }};
  Result<std::optional<observe::MetricValues>> values;
  const auto run = [&] { values = train::evaluate(parts_.module, *parts_.data, options, parts_.communicator, rounds); };
  if (parts_.ema != nullptr) {
    // No save is staging the parameters: the step before has waited for that.
    parts_.ema->with_average(run);
  } else {
    run();
  }
  return values;
}

}  // namespace trainyard::train
