#include "worker/train/resume.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::train {

Result<std::optional<Resumed>> resume(checkpoint::Checkpointer& checkpointer, checkpoint::State& state,
                                      const ResumeOptions& options) {
  auto restored = TRY(checkpointer.restore(state));
  if (!restored) return std::nullopt;
  auto values = TRY(parse_training_values(restored->values));
  if (const std::int64_t done = values.position.samples; done >= options.training_samples) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{} is {} samples into an epoch, and this training set has {}: it was saved with other data",
                    restored->uri, done, options.training_samples));
  }
  if (options.is_rank0) {
    for (const std::string& reason : restored->skipped) logging::warn("checkpoint skipped", {{"error", reason}});
  }
  return Resumed{.from = std::move(*restored), .values = std::move(values)};
}

void log_resumed(const checkpoint::Restored& from, std::int64_t world_size) {
  logging::info("resumed from a checkpoint", {{"step", from.step}, {"uri", from.uri}, {"local", from.is_local}});
  if (from.world_size == world_size) return;
  logging::info("the checkpoint is of another number of ranks: the samples go on in the same order",
                {{"savedBy", from.world_size}, {"worldSize", world_size}});
  if (from.world_size < world_size) {
    logging::info("ranks that the checkpoint does not have draw from generators of the seed and their rank",
                  {{"firstRank", from.world_size}});
  }
}

}  // namespace trainyard::train
