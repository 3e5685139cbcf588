#pragma once

#include <optional>
#include <string>

#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/data/dataset.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/best_metric.hpp"
#include "worker/train/module.hpp"
#include "worker/train/optimizer.hpp"
#include "worker/train/schedule.hpp"

namespace trainyard::train {

/// The random generators of this rank, as bytes that a checkpoint holds.
class RandomState {
 public:
  /// `device`: the rank's own; its generator counts too where it is a GPU.
  explicit RandomState(torch::Device device);
  /// Takes the generators' states of now into the entries' tensors.
  void read();
  /// Puts the entries' tensors into the generators.
  void write() const;
  [[nodiscard]] const std::vector<checkpoint::Entry>& entries() const { return entries_; }

 private:
  std::vector<at::Generator> generators_;
  std::vector<checkpoint::Entry> entries_;
};

/// All that a run needs to go on to the bit, as tensors that a Checkpointer reads and writes in place: parameters,
/// buffers, the optimizer's state and the random generators'.
[[nodiscard]] checkpoint::State make_state(const Module& module, Optimizer& optimizer, const RandomState& random);

/// The small values of a checkpoint.
struct TrainingValues {
  Position position;
  observe::MetricValues metrics;    ///< Of the last validation.
  std::optional<BestValue> best{};  ///< Of all validations, where checkpoint.every.best looks for it.
};

[[nodiscard]] nlohmann::json to_json(const TrainingValues& values);
/// corrupt when a number is missing.
[[nodiscard]] Result<TrainingValues> parse_training_values(const nlohmann::json& object);

/// What must be equal for a run to go on from another job's checkpoint: the model's name and its tensors' names, shapes
/// and types, and the training set's size and id; where it gives no id, the format and place of `data`. No sample is
/// looked at: augmentation makes others of them at each start.
[[nodiscard]] std::string fingerprint(const std::string& model_name, const Module& module, const Dataset& dataset,
                                      const api::DataSpec& data);

}  // namespace trainyard::train
