#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/early_stopping.hpp"
#include "worker/train/lr_schedule.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/schedule.hpp"
#include "worker/train/watched_metric.hpp"

namespace trainyard::train {

/// Seeds this rank's generators for the training, in which ranks draw different numbers, as for dropout. While the
/// model is made they have `seed` on all ranks.
void seed_for_training(std::int64_t seed, std::int64_t rank);

/// The random generators of this rank, as bytes that a checkpoint holds.
class RandomState {
 public:
  /// `device`: the rank's. A GPU has a generator of its own beside the CPU's.
  explicit RandomState(torch::Device device);
  /// Copies the generators' present states into the entries' tensors.
  void read();
  /// Copies the entries' tensors into the generators.
  void write() const;
  [[nodiscard]] const std::vector<checkpoint::Entry>& entries() const { return entries_; }

 private:
  std::vector<at::Generator> generators_;
  std::vector<checkpoint::Entry> entries_;
};

/// The parts of a training's state that all ranks have alike.
struct EqualOnRanks {
  bool parameters = true;
  bool optimizer = true;
};

/// The parameters and buffers of `module`, as entries of a checkpoint. `has_equal_parameters`: on all ranks; otherwise
/// those of rank 0 are the model's.
[[nodiscard]] checkpoint::State model_state(const Module& module, bool has_equal_parameters = true);
/// The tensors that a run needs to resume bit-equal, which a Checkpointer reads and writes in place: parameters,
/// buffers, `optimizer_state` (each rank's own, where the ranks' are not equal), and the states of the random
/// generators. `shards`: the rows that tensors of `optimizer_state` hold, by name; the others are whole.
[[nodiscard]] checkpoint::State make_state(const Module& module, const NamedTensors& optimizer_state,
                                           const RandomState& random, const EqualOnRanks& equal = {},
                                           const std::map<std::string, checkpoint::Shard>& shards = {});

/// TrainingValues::epoch_samples where the training set has no size.
constexpr std::int64_t unknown_epoch_samples = 0;

/// The small values of a checkpoint.
struct TrainingValues {
  Position position;
  observe::MetricValues metrics;    ///< Metrics of the last validation.
  std::optional<BestValue> best{};  ///< The best of all validations, when checkpoint.every.best is set.
  PlateauState plateau{};           ///< State of lrSchedule plateau.
  StoppingState stopping{};         ///< State of earlyStopping.
  /// A stop interrupted the validation that was due here, and the next steps depend on its metrics.
  bool owes_validation = false;
  bool is_ended_by_callback = false;  ///< A callback asked to end the training, and all ranks have agreed.
  /// Samples of an epoch of the whole job. Absent: as many as the training set has.
  std::optional<std::int64_t> epoch_samples{};
  std::vector<std::int64_t> order_sizes{};  ///< data::Sampling::order_sizes.
};

[[nodiscard]] nlohmann::json to_json(const TrainingValues& values);
/// ErrorKind::corrupt when a number is missing.
[[nodiscard]] Result<TrainingValues> parse_training_values(const nlohmann::json& object);

/// The fingerprint of model and training set, which must be equal for a run to resume from another job's checkpoint. It
/// contains the model's name, its tensors' names, shapes and types, and the training set's size and id, or, without an
/// id, the format and place of `data`; then the size of a sampler that the ranks share, or that they have orders of
/// their own. Samples are not read, because augmentation may change them at each start.
[[nodiscard]] std::string fingerprint(const std::string& model_name, const Module& module, const Dataset& dataset,
                                      const api::DataSpec& data, const Sampler* sampler = nullptr);
/// The fingerprint with the training set and sampler of `datasets`; "streams" takes the place of a size that there is
/// not.
[[nodiscard]] std::string fingerprint(const std::string& model_name, const Module& module, const Datasets& datasets,
                                      const api::DataSpec& data);

}  // namespace trainyard::train
