#include "worker/train/log_fields.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/logging.hpp"

namespace trainyard::train {
namespace {

double six_digits_of(double value) {
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

}  // namespace

nlohmann::json to_field(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return six_digits_of(value);
}

double to_seconds(std::chrono::nanoseconds duration) {
  return six_digits_of(std::chrono::duration<double>{duration}.count());
}

nlohmann::json to_field(const observe::MetricValues& values) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, value] : values) object[name] = to_field(value);
  return object;
}

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
