#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "api/training_spec.hpp"
#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/early_stopping.hpp"
#include "worker/train/ema.hpp"
#include "worker/train/evaluate.hpp"
#include "worker/train/lr_schedule.hpp"
#include "worker/train/module_replicas.hpp"
#include "worker/train/training_state.hpp"
#include "worker/train/watched_metric.hpp"

namespace trainyard::train {

/// References and pointers outlive the validation.
struct ValidationParts {
  const api::TrainingSpec& training;
  Module& module;
  ModuleReplicas* replicas = nullptr;  ///< They share the batches of `module`; nullptr: it has none.
  const Dataset* data = nullptr;       ///< nullptr: nothing is validated.
  checkpoint::Communicator& communicator;
  const api::CheckpointSpec* checkpoint_spec = nullptr;  ///< nullptr: no metric's best is kept.
  Ema* ema = nullptr;          ///< The model is validated with these averages, if there are any.
  bool has_callbacks = false;  ///< Callbacks may decide by the metrics.
  torch::Device device = torch::kCPU;
};

/// The validations of a training, and the decisions that follow from their metrics. All ranks decide alike. Used from
/// the training thread.
class Validation {
 public:
  explicit Validation(const ValidationParts& parts) : parts_{parts} {}

  [[nodiscard]] bool has_data() const { return parts_.data != nullptr; }
  /// Validates the model. False when `rounds` ended it early: the values are then those of the validation before.
  /// Throws what the module throws, and InvalidJob when the job decides by a metric that the module did not log.
  /// Errors: those of the group.
  [[nodiscard]] Result<bool> run(const EvaluationRounds& rounds);

  /// The metrics of the last validation.
  [[nodiscard]] const observe::MetricValues& values() const { return values_; }
  /// True when checkpoint.every.best is set and the last validation's metric was better than all before.
  [[nodiscard]] bool is_best() const { return is_best_; }
  /// True when the last validation was ended early, and the next steps depend on its metrics.
  [[nodiscard]] bool is_owed() const { return is_owed_; }
  [[nodiscard]] const PlateauState& plateau() const { return plateau_; }
  /// Why earlyStopping ends the training now, as the end of a sentence; nothing while training goes on.
  [[nodiscard]] std::optional<std::string> reason_to_stop() const {
    return train::reason_to_stop(parts_.training.early_stopping, stopping_);
  }

  /// Takes the values of a checkpoint that are about validations.
  void restore(const TrainingValues& values);
  void add_to(TrainingValues& values) const;

 private:
  [[nodiscard]] Result<std::optional<observe::MetricValues>> evaluate(const EvaluationRounds& rounds);

  ValidationParts parts_;
  observe::MetricValues values_;
  std::optional<BestValue> best_;
  bool is_best_ = false;
  bool has_best_metric_ = false;  // A validation of this attempt had the metric of the best.
  bool is_owed_ = false;
  PlateauState plateau_;
  StoppingState stopping_;
};

}  // namespace trainyard::train
