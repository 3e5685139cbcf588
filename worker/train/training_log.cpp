#include "worker/train/training_log.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <vector>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/train/batch_sequence.hpp"
#include "worker/train/log_fields.hpp"
#include "worker/train/streamed_batches.hpp"

namespace trainyard::train {

TrainingLog::TrainingLog(const TrainingLogParts& parts)
    : parts_{parts}, timer_{parts_.clock}, speed_{parts_.clock.instant()} {
  parts_.module.set_metric_sink(&metrics_);
  image_sinks_.add(parts_.snapshots);
  image_sinks_.add(parts_.log_files);
  parts_.module.set_image_sink(&image_sinks_);
}

void TrainingLog::set_step(std::int64_t step) {
  if (parts_.snapshots != nullptr) parts_.snapshots->set_step(step);
  if (parts_.log_files != nullptr) parts_.log_files->set_step(step);
}

void TrainingLog::log_learning_rate(double learning_rate) {
  metrics_.log_own("lr", torch::scalar_tensor(learning_rate, torch::kDouble), {});
}

Result<void> TrainingLog::show_steps(rank::RankProgress& progress, const Position& position,
                                     std::optional<std::int64_t> samples_left) {
  const observe::RankTimes own{.node = parts_.node, .times = timer_.take()};
  const auto [values, notes] = TRY(metrics_.steps().reduce_with_note(parts_.communicator, to_line(own)));
  progress.loss = values.at("loss");
  if (is_first_line_) {
    // The first step includes one-time set-up, so that its speed is not reported.
    begin();
  } else {
    progress.step_milliseconds = step_milliseconds(own.times);
    progress.samples_per_second = speed_.take_rate(parts_.clock.instant());
    const auto left = samples_left ? speed_.time_for(*samples_left) : std::nullopt;
    progress.eta_seconds = left ? std::optional{left->count()} : std::nullopt;
  }
  std::vector<observe::RankTimes> ranks;
  for (const std::string& note : notes) ranks.push_back(observe::parse_rank_times(note));
  if (is_rank0())
    log_step(progress, values, {.is_first_step = is_first_line_, .was_loss_finite = is_loss_finite_, .ranks = ranks});
  observe::MetricValues shown = values;
  if (!is_first_line_ && progress.samples_per_second)
    shown[std::string{observe::speed_metric}] = *progress.samples_per_second;
  show(shown, snapshot::Over::steps, Schedule::epoch_of(position),
       is_first_line_ ? observe::MetricValues{} : shown_step_times(ranks));
  is_loss_finite_ = std::isfinite(values.at("loss"));
  is_first_line_ = false;
  return {};
}

Result<void> TrainingLog::show_epoch(const Position& position) {
  const auto values = TRY(metrics_.epoch().reduce(parts_.communicator));
  if (is_rank0())
    logging::info("epoch done", {{"epoch", position.epoch}, {"step", position.step}, {"metrics", to_field(values)}});
  show(values, snapshot::Over::epoch, Schedule::epoch_of(position));
  return {};
}

void TrainingLog::show_validation(const Position& position, const observe::MetricValues& values) {
  if (is_rank0()) logging::info("validated", {{"step", position.step}, {"metrics", to_field(values)}});
  show(values, snapshot::Over::validation, Schedule::epoch_of(position));
}

void TrainingLog::show(const observe::MetricValues& values, snapshot::Over over, std::int64_t epoch,
                       observe::MetricValues times) {
  if (parts_.snapshots != nullptr) parts_.snapshots->add(values, over);
  times.insert(values.begin(), values.end());
  if (parts_.log_files != nullptr) parts_.log_files->add(times, over, epoch);
}

void log_beginning(const api::TrainingSpec& training, const Datasets& datasets, const data::Sampling& sampling,
                   const Computers& computers) {
  const std::int64_t world_size = computers.world_size;
  const bool has_size = datasets.train != nullptr;
  const nlohmann::json unknown;
  logging::info("training begins",
                {{"model", training.model.name},
                 {"worldSize", world_size},
                 {"device", computers.device.str()},
                 {"threadsPerRank", at::get_num_threads()},
                 {"batchSize", training.batch_size},
                 {"effectiveBatchSize", training.batch_size * world_size * training.accumulate_grad_batches},
                 {"trainingSamples", has_size ? nlohmann::json(datasets.train->size()) : unknown},
                 {"epochSamples", has_size ? nlohmann::json(data::epoch_samples(sampling, world_size)) : unknown}});
  if (computers.replicas > 1) {
    const std::int64_t of_each = (training.batch_size + computers.replicas - 1) / computers.replicas;
    logging::info("each rank divides its batches among replicas of the model",
                  {{"replicas", computers.replicas}, {"samplesOfEach", of_each}});
    if (of_each * (computers.replicas - 1) >= training.batch_size) {
      logging::warn("some replicas get no samples: training.batchSize is too small for so many",
                    {{"replicas", computers.replicas}, {"batchSize", training.batch_size}});
    }
  }
  if (world_size > 1 && api::has_mean_gradients(training.strategy) &&
      training.optimizer.lr_scaling == api::LrScaling::none) {
    logging::info(
        "the learning rate does not follow the number of ranks, as the batch does: training.optimizer.lrScaling linear "
        "or sqrt would scale it",
        {{"lr", training.optimizer.lr},
         {"linear", training.optimizer.lr * api::lr_factor(api::LrScaling::linear, world_size)},
         {"sqrt", training.optimizer.lr * api::lr_factor(api::LrScaling::sqrt, world_size)}});
  }
  const std::int64_t threads = has_size ? loader_threads(training.data, *datasets.train)
                                        : stream_threads(training.data, *datasets.iterable_train);
  if (const auto asked = training.data.loader_threads; asked && *asked > threads) {
    logging::warn(
        "the data set is read by fewer threads than training.data.loaderThreads: only one may call it at once",
        {{"loaderThreads", *asked}, {"threads", threads}});
  }
}

void log_complete(std::int64_t step, const observe::MetricValues& metrics, std::uint64_t exchanged_bytes,
                  std::uint64_t parameters_checksum) {
  logging::info("training complete", {{"step", step},
                                      {"metrics", to_field(metrics)},
                                      {"exchangedBytes", exchanged_bytes},
                                      {"parametersChecksum", fmt::format("{:016x}", parameters_checksum)}});
}

}  // namespace trainyard::train
