#include "worker/strategy/bucket_tuning.hpp"

#include <torch/types.h>

#include <utility>

#include "common/check.hpp"

namespace trainyard::strategy {

BucketTuning::BucketTuning(TuningPlan plan)
    : plan_{std::move(plan)},
      state_{torch::zeros({1 + 2 * static_cast<std::int64_t>(plan_.candidates.size())}, torch::kDouble)} {
  check(!plan_.candidates.empty() && plan_.steps_per_sample > 0 && plan_.rounds > 0, "there is something to try");
}

std::size_t BucketTuning::candidate() const {
  if (is_done()) return best();
  const std::int64_t sample = steps() / plan_.steps_per_sample;
  // The first steps of a process are slower than those that follow: sample 0 has the first candidate and is not rated.
  return sample == 0 ? 0 : static_cast<std::size_t>(sample - 1) % plan_.candidates.size();
}

std::optional<TuningSample> BucketTuning::add_step(std::int64_t bytes, std::chrono::duration<double> time) {
  check(!is_done(), "the bucket size is still open");
  sample_.candidate = candidate();
  sample_.bytes += bytes;
  sample_.time += time;
  if (steps() >= plan_.steps_per_sample) {
    double* const numbers = rated(sample_.candidate);
    numbers[0] += static_cast<double>(bytes);
    numbers[1] += time.count();
  }
  state_.mutable_data_ptr<double>()[0] += 1;
  if (steps() % plan_.steps_per_sample != 0) return std::nullopt;
  return std::exchange(sample_, {});
}

std::int64_t BucketTuning::steps() const {
  return static_cast<std::int64_t>(state_.const_data_ptr<double>()[0]);
}

std::int64_t BucketTuning::steps_max() const {
  const auto samples = 1 + plan_.rounds * static_cast<std::int64_t>(plan_.candidates.size());
  return samples * plan_.steps_per_sample;
}

/// The first of the candidates that exchanged the most bytes per second.
std::size_t BucketTuning::best() const {
  std::size_t best = 0;
  double most = -1.0;
  for (std::size_t index = 0; index < plan_.candidates.size(); ++index) {
    const double* const numbers = rated(index);
    const double rate = numbers[1] > 0 ? numbers[0] / numbers[1] : 0.0;
    if (rate > most) {
      best = index;
      most = rate;
    }
  }
  return best;
}

double* BucketTuning::rated(std::size_t candidate) const {
  return state_.mutable_data_ptr<double>() + 1 + 2 * candidate;
}

}  // namespace trainyard::strategy
