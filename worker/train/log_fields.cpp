#include "worker/train/log_fields.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

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

}  // namespace trainyard::train
