#include "worker/train/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::train {
namespace {

/// invalid: a rank's own order has another size than that of the checkpoint, so that its position is another one.
Result<void> compare_order_sizes(const checkpoint::Restored& from, const TrainingValues& values,
                                 const ResumeOptions& options) {
  const auto size_of = [&](const std::vector<std::int64_t>& sizes, std::size_t rank) {
    return rank < sizes.size() ? sizes[rank]
                               : data::epoch_samples(options.sampling, options.world_size) / options.world_size;
  };
  if (values.order_sizes.empty() && options.sampling.order_sizes.empty()) return {};
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(options.world_size); ++rank) {
    const std::int64_t before = size_of(values.order_sizes, rank), now = size_of(options.sampling.order_sizes, rank);
    if (before == now) continue;
    return fail(
        ErrorKind::invalid,
        fmt::format("{} was saved in an epoch in which rank {} had {} samples, and now it has {}: give each rank "
                    "the samples that it had, or set checkpoint.resume to none to train afresh",
                    from.uri, rank, before, now));
  }
  return {};
}

/// For a training set without a size.
Result<Position> position_in_streams(const checkpoint::Restored& from, const TrainingValues& values,
                                     const ResumeOptions& options) {
  if (values.epoch_samples != unknown_epoch_samples) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is {} samples into an epoch of data with a size, and the training set has none: it was "
                            "saved with other data; take the same, or set checkpoint.resume to none to train afresh",
                            from.uri, values.position.samples));
  }
  if (from.world_size == options.world_size || options.streams->is_interleaved()) return values.position;
  return fail(ErrorKind::invalid,
              fmt::format("{} is {} samples into an epoch of {} ranks' streams, and there are {} ranks now: only a "
                          "training set whose is_interleaved() is true goes on with another number of ranks; start {} "
                          "ranks, or set checkpoint.resume to none to train afresh",
                          from.uri, values.position.samples, from.world_size, options.world_size, from.world_size));
}

}  // namespace

Result<Position> position_to_resume(const checkpoint::Restored& from, const TrainingValues& values,
                                    const ResumeOptions& options) {
  const Position& saved = values.position;
  if (saved.samples == 0) return saved;  // The next epoch may have any size.
  if (options.streams != nullptr) return position_in_streams(from, values, options);
  const std::int64_t size = data::epoch_samples(options.sampling, options.world_size);
  const std::int64_t saved_size = values.epoch_samples.value_or(options.sampling.dataset_samples);
  if (!options.sampling.is_shared && from.world_size != options.world_size) {
    const double part_done =
        static_cast<double>(saved.samples) / static_cast<double>(std::max(saved_size, saved.samples));
    const std::int64_t each = size / options.world_size;
    const auto done = std::llround(part_done * static_cast<double>(each));
    return Position{.step = saved.step,
                    .epoch = saved.epoch,
                    .samples = std::min<std::int64_t>(done, each - 1) * options.world_size};
  }
  if (saved.samples >= size) {
    return fail(
        ErrorKind::invalid,
        fmt::format(
            "{} is {} samples into an epoch, and an epoch of this training has {}: it was saved with other data",
            from.uri, saved.samples, size));
  }
  const bool is_checked = values.epoch_samples || data::has_epochs_of_own_size(options.sampling);
  if (is_checked && saved_size != size) {
    return fail(
        ErrorKind::invalid,
        fmt::format(
            "{} is {} samples into an epoch of {}, and an epoch of this training has {}: it was saved "
            "with another sampler or other data; take the same ones, or set checkpoint.resume to none to train afresh",
            from.uri, saved.samples, saved_size, size));
  }
  TRY(compare_order_sizes(from, values, options));
  return saved;
}

Result<std::optional<Resumed>> resume(checkpoint::Checkpointer& checkpointer, checkpoint::State& state,
                                      const ResumeOptions& options) {
  auto restored = TRY(checkpointer.restore(state));
  if (!restored) return std::nullopt;
  auto values = TRY(parse_training_values(restored->values));
  values.position = TRY(position_to_resume(*restored, values, options));
  if (options.is_rank0) {
    for (const std::string& reason : restored->skipped) logging::warn("checkpoint skipped", {{"error", reason}});
  }
  return Resumed{.from = std::move(*restored), .values = std::move(values)};
}

void log_resumed(const checkpoint::Restored& from, const ResumeOptions& options) {
  const std::int64_t world_size = options.world_size;
  logging::info("resumed from a checkpoint", {{"step", from.step}, {"uri", from.uri}, {"local", from.is_local}});
  if (from.world_size == world_size) return;
  logging::info(options.streams != nullptr || options.sampling.is_shared
                    ? "the checkpoint is of another number of ranks: the samples go on in the same order"
                    : "the checkpoint is of another number of ranks: each goes on in an order of its own, so that the "
                      "epoch may repeat samples or leave some out",
                {{"savedBy", from.world_size}, {"worldSize", world_size}});
  if (from.world_size < world_size) {
    logging::info("ranks that the checkpoint does not have draw from generators of the seed and their rank",
                  {{"firstRank", from.world_size}});
  }
}

}  // namespace trainyard::train
