#include "worker/train/step_log.hpp"

#include <cmath>
#include <cstdint>

#include "common/logging.hpp"
#include "worker/train/log_fields.hpp"

namespace trainyard::train {

void log_step(const rank::RankProgress& progress, const observe::MetricValues& values, const StepLine& line) {
  const std::int64_t step = *progress.step;
  const double loss = values.at("loss");
  if (line.is_first_step) {
    logging::info("first step done", {{"step", step}, {"totalSteps", *progress.total_steps}, {"loss", to_field(loss)}});
  } else {
    logging::info("progress", {{"epoch", *progress.epoch},
                               {"step", step},
                               {"totalSteps", *progress.total_steps},
                               {"loss", to_field(loss)},
                               {"samplesPerSecond", std::round(progress.samples_per_second.value_or(0.0))}});
  }
  if (!std::isfinite(loss) && line.was_loss_finite)
    logging::warn("the loss is not finite; training goes on", {{"step", step}, {"loss", to_field(loss)}});
  if (values.size() > 1) logging::info("metrics", {{"step", step}, {"metrics", to_field(values)}});
}

}  // namespace trainyard::train
