#include "worker/train/early_stopping.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::train {
namespace {

bool is_improvement(const api::EarlyStoppingSpec& spec, double value, const std::optional<BestValue>& best) {
  if (!std::isfinite(value)) return false;
  if (!best) return true;
  return spec.mode == api::BestMode::min ? value < best->value - spec.min_delta : value > best->value + spec.min_delta;
}

bool is_of(const api::EarlyStoppingSpec& spec, const BestValue& best) {
  return best.metric == spec.metric && best.mode == spec.mode;
}

}  // namespace

StoppingState after_validation(const api::EarlyStoppingSpec& spec, const StoppingState& state,
                               const observe::MetricValues& values) {
  const double value = watched_metric(values, spec.metric, stopping_metric_field);
  StoppingState next = state;
  if (next.best && !is_of(spec, *next.best)) next = {};
  if (is_improvement(spec, value, next.best))
    return {.best = BestValue{.metric = spec.metric, .mode = spec.mode, .value = value}, .bad_count = 0};
  ++next.bad_count;
  return next;
}

std::optional<std::string> reason_to_stop(const std::optional<api::EarlyStoppingSpec>& spec,
                                          const StoppingState& state) {
  if (!spec || state.bad_count < spec->patience || (state.best && !is_of(*spec, *state.best))) return std::nullopt;
  if (!state.best)
    return fmt::format("stopped early: {} was not finite in {} validations", spec->metric, state.bad_count);
  return fmt::format("stopped early: {} was no better than {:.6g} in {} validations", spec->metric, state.best->value,
                     state.bad_count);
}

}  // namespace trainyard::train
