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

void log_straggler(std::int64_t step, std::span<const observe::RankTimes> ranks) {
  const auto slow = observe::find_straggler(ranks);
  if (!slow) return;
  const nlohmann::json straggler{{"rank", slow->rank},
                                 {"node", slow->node},
                                 {"part", observe::step_part_names[static_cast<std::size_t>(slow->part)]},
                                 {"ratio", six_digits_of(slow->ratio)}};
  logging::info("a rank is slower than the others, which wait for it", {{"step", step}, {"straggler", straggler}});
}

}  // namespace

observe::MetricValues shown_step_times(std::span<const observe::RankTimes> ranks) {
  observe::MetricValues values;
  for (const auto& [part, milliseconds] : observe::step_milliseconds(ranks))
    values[std::string{observe::step_times_prefix} + part] = milliseconds;
  return values;
}

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
  nlohmann::json total_steps;  // null where it is not known
  if (progress.total_steps) total_steps = *progress.total_steps;
  if (line.is_first_step) {
    logging::info("first step done", {{"step", step}, {"totalSteps", total_steps}, {"loss", to_field(loss)}});
  } else {
    logging::info("progress", {{"epoch", *progress.epoch},
                               {"step", step},
                               {"totalSteps", total_steps},
                               {"loss", to_field(loss)},
                               {"samplesPerSecond", to_field(progress.samples_per_second.value_or(0.0))},
                               {"stepTimes", to_field(observe::step_milliseconds(line.ranks))}});
    log_straggler(step, line.ranks);
  }
  if (!std::isfinite(loss) && line.was_loss_finite)
    logging::warn("the loss is not finite; training goes on", {{"step", step}, {"loss", to_field(loss)}});
  if (values.size() > 1) logging::info("metrics", {{"step", step}, {"metrics", to_field(values)}});
}

}  // namespace trainyard::train
