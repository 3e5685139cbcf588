#include "operator/plan/names.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "common/contract.hpp"

namespace trainyard::plan {
namespace {

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// The last two numbers of the pod's name. The name is used and not the labels, because users can edit labels.
std::optional<std::pair<std::int64_t, std::int64_t>> numbers_of(const std::string& name) {
  const auto last = name.rfind('-');
  const auto middle = last == std::string::npos || last == 0 ? std::string::npos : name.rfind('-', last - 1);
  if (middle == std::string::npos) return std::nullopt;
  const auto attempt = parse_number(std::string_view{name}.substr(middle + 1, last - middle - 1));
  const auto rank = parse_number(std::string_view{name}.substr(last + 1));
  if (!attempt || !rank) return std::nullopt;
  return std::pair{*attempt, *rank};
}

}  // namespace

std::string owned_name(const resource::TrainingJob& job) {
  return fmt::format("{}-{}", job.metadata.name, job.metadata.uid.substr(0, 4));
}

std::string service_name(const resource::TrainingJob& job) {
  return owned_name(job);
}

std::string pod_name(const resource::TrainingJob& job, std::int64_t attempt, std::int64_t rank) {
  return fmt::format("{}-{}-{}", owned_name(job), attempt, rank);
}

std::string clean_up_pod_name(const resource::TrainingJob& job) {
  return fmt::format("{}-cleanup", owned_name(job));
}

PodPlace place_of(const resource::TrainingJob& job, std::int64_t attempt, std::int64_t rank) {
  return {.name_space = job.metadata.name_space,
          .service = service_name(job),
          .pod = pod_name(job, attempt, rank),
          .attempt = attempt,
          .rank = rank};
}

std::string job_selector(const resource::TrainingJob& job) {
  return fmt::format("{}={}", contract::label_job, job.metadata.name);
}

std::int64_t attempt_of(const resource::Pod& pod) {
  const auto numbers = numbers_of(pod.metadata.name);
  return numbers ? numbers->first : -1;
}

std::int64_t rank_of(const resource::Pod& pod) {
  const auto numbers = numbers_of(pod.metadata.name);
  return numbers ? numbers->second : -1;
}

}  // namespace trainyard::plan
