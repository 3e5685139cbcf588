#include "worker/train/watched_metric.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::train {

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

void check_watches_nothing(const api::TrainingSpec& training) {
  if (training.lr_schedule.name == api::LrScheduleName::plateau)
    (void)watched_metric({}, training.lr_schedule.metric, lr_metric_field);
  if (training.early_stopping) (void)watched_metric({}, training.early_stopping->metric, stopping_metric_field);
}

}  // namespace trainyard::train
