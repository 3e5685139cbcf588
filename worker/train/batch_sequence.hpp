#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/training_spec.hpp"
#include "include/trainyard/data.hpp"
#include "worker/data/batch_loader.hpp"
#include "worker/data/sampling.hpp"
#include "worker/train/schedule.hpp"

namespace trainyard::train {

/// One rank's batches in the order of training, from a position to the end of a schedule.
class BatchSequence {
 public:
  struct Options {
    data::Sampling sampling;
    std::int64_t batch_size = 1;
    data::GroupRank self;
  };

  /// `schedule` outlives the object. `begin`: the position of the first step.
  BatchSequence(const Schedule& schedule, const Position& begin, const Options& options)
      : schedule_{schedule}, options_{options}, step_{begin} {}

  /// The next batch; nothing after the schedule's last one. Throws as data::order_of() in the first batch of an epoch.
  [[nodiscard]] std::optional<data::BatchRequest> next();

 private:
  const Schedule& schedule_;
  Options options_;
  Position step_;           // of the step that the next batch belongs to
  std::int64_t batch_ = 0;  // the next batch's number in that step
  torch::Tensor order_;     // of the epoch order_epoch_
  std::int64_t order_epoch_ = -1;
};

/// How the job's ranks take the samples of `dataset`. `sampler`: that of Datasets; may be nullptr. `order_sizes`: as
/// agree_on_data() returns them.
[[nodiscard]] data::Sampling make_sampling(const api::TrainingSpec& training, const Dataset& dataset,
                                           const Sampler* sampler, std::vector<std::int64_t> order_sizes);

struct BatchPlace {
  data::GroupRank self;
  torch::Device device = torch::kCPU;
};

/// The loader of this rank's training batches from the step after `begin` on. The arguments outlive it. A batch for
/// which the rank has no sample left has ids of size 0 and no tensors; the data set is not asked for it. Throws
/// InvalidJob when `dataset` has another size than `sampling` was made for.
[[nodiscard]] std::unique_ptr<data::BatchLoader> open_batches(const Schedule& schedule, const Position& begin,
                                                              const Dataset& dataset, const data::Sampling& sampling,
                                                              const api::TrainingSpec& training,
                                                              const BatchPlace& place);

/// The next batch of `batches`, which there must be, as a call of the program: its data set's gather(), or its
/// sampler's order().
[[nodiscard]] Batch next_batch(data::BatchLoader& batches);

/// How many threads read `dataset` ahead: as many as the job says, else as many as the data set asks for. At most one
/// for a data set that asks for none, which only one thread at a time may call.
[[nodiscard]] std::int64_t loader_threads(const api::DataSpec& spec, const Dataset& dataset);

}  // namespace trainyard::train
