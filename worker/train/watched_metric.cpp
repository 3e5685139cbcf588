#include "worker/train/watched_metric.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::train {

std::optional<BestValue> better_value(const api::KeepBestSpec& spec, const observe::MetricValues& values,
                                      const std::optional<BestValue>& best) {
  const auto found = values.find(spec.metric);
  if (found == values.end() || !std::isfinite(found->second)) return std::nullopt;
  const BestValue candidate{.metric = spec.metric, .mode = spec.mode, .value = found->second};
  if (!best || best->metric != spec.metric || best->mode != spec.mode) return candidate;
  const bool is_better =
      spec.mode == api::BestMode::max ? candidate.value > best->value : candidate.value < best->value;
  return is_better ? std::optional{candidate} : std::nullopt;
}

double watched_metric(const observe::MetricValues& values, std::string_view name, std::string_view field) {
  if (const auto found = values.find(std::string{name}); found != values.end()) return found->second;
  if (values.empty())
    throw InvalidJob{
        fmt::format("{}: there is no metric '{}', as the model validates nothing: give it validation data "
                    "and a validation_step that logs the metric",
                    field, name)};
  std::vector<std::string_view> known;
  for (const auto& [known_name, value] : values) known.push_back(known_name);
  throw InvalidJob{
      fmt::format("{}: the validation has no metric '{}' (there is: {})", field, name, fmt::join(known, ", "))};
}

bool decides_by_validation(const api::TrainingSpec& training) {
  return training.early_stopping || training.lr_schedule.name == api::LrScheduleName::plateau;
}

void check_watches_nothing(const api::TrainingSpec& training, const api::CheckpointSpec* checkpoint) {
  if (training.lr_schedule.name == api::LrScheduleName::plateau)
    (void)watched_metric({}, training.lr_schedule.metric, lr_metric_field);
  if (training.early_stopping) (void)watched_metric({}, training.early_stopping->metric, stopping_metric_field);
  if (checkpoint != nullptr && checkpoint->keep.best)
    (void)watched_metric({}, checkpoint->keep.best->metric, best_metric_field);
}

}  // namespace trainyard::train
