#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/strategy/bucket_assignment.hpp"

namespace trainyard::strategy {

/// How bucket sizes are tried in the first steps of a training.
struct TuningPlan {
  std::vector<BucketLimits> candidates;
  std::int64_t steps_per_sample = 10;
  std::int64_t rounds = 2;  ///< How often each candidate is tried. Before these rounds the first candidate has one
                            ///< sample that is not rated.
};

/// The bytes of gradients that a candidate's steps have exchanged in a sample, and the time of these steps.
struct TuningSample {
  std::size_t candidate = 0;
  std::int64_t bytes = 0;
  std::chrono::duration<double> time{};
  /// 0 where no time was measured.
  [[nodiscard]] double bytes_per_second() const {
    return time.count() > 0 ? static_cast<double>(bytes) / time.count() : 0.0;
  }
};

/// Chooses the bucket size of each step. The first steps try one candidate after the other; later steps use the
/// candidate that exchanged the most bytes per second. The number of earlier steps alone decides which candidate a step
/// tries, so that all ranks try the same one. At the end rank 0's measurements decide.
class BucketTuning {
 public:
  /// `plan` has a candidate, and its numbers are at least 1.
  explicit BucketTuning(TuningPlan plan);

  /// The limits of the next step's buckets.
  [[nodiscard]] const BucketLimits& limits() const { return plan_.candidates[candidate()]; }
  [[nodiscard]] const BucketLimits& limits_of(std::size_t candidate) const { return plan_.candidates[candidate]; }
  /// The index of the next step's candidate.
  [[nodiscard]] std::size_t candidate() const;
  /// True once all samples were taken: limits() stays what it is.
  [[nodiscard]] bool is_done() const { return steps() >= steps_max(); }
  /// Adds a step. Returns the sample that it completes, with what this object has measured of it. Not after is_done().
  std::optional<TuningSample> add_step(std::int64_t bytes, std::chrono::duration<double> time);

  /// float64 [1 + 2 C], on the host: the number of steps, then the rated bytes and seconds of each candidate. It keeps
  /// its storage. A resumed run goes on where these numbers end; a sample that a stop cut in two is rated by its steps
  /// on both sides.
  [[nodiscard]] const torch::Tensor& state() const { return state_; }

 private:
  [[nodiscard]] std::int64_t steps() const;
  [[nodiscard]] std::int64_t steps_max() const;
  [[nodiscard]] std::size_t best() const;
  [[nodiscard]] double* rated(std::size_t candidate) const;

  TuningPlan plan_;
  torch::Tensor state_;
  TuningSample sample_;  // the present one, since this object was made
};

}  // namespace trainyard::strategy
