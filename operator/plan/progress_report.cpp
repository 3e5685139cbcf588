#include "operator/plan/progress_report.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "common/rfc3339.hpp"

namespace trainyard::plan {
namespace {

using nlohmann::json;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr double eta_seconds_max = 10.0 * 365 * 86'400;

std::optional<std::int64_t> count(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<std::int64_t>();
  return value < 0 ? std::nullopt : std::optional{value};
}

std::optional<double> number(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return std::nullopt;
  if (found->is_null()) return std::numeric_limits<double>::quiet_NaN();  // JSON has no other word for it
  return found->is_number() ? std::optional{found->get<double>()} : std::nullopt;
}

std::string text(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::optional<Time> estimated_end(const json& object, Time now) {
  const auto eta_seconds = number(object, "etaSeconds");
  if (!eta_seconds || !(*eta_seconds >= 0.0) || *eta_seconds > eta_seconds_max) return std::nullopt;
  return now + duration_cast<milliseconds>(std::chrono::duration<double>{*eta_seconds});
}

std::optional<resource::CheckpointStatus> checkpoint(const json& object) {
  const auto found = object.find("checkpoint");
  if (found == object.end() || !found->is_object()) return std::nullopt;
  const auto step = count(*found, "step");
  if (!step) return std::nullopt;
  resource::CheckpointStatus status;
  status.step = *step;
  status.uri = text(*found, "uri");
  if (const auto time = parse_rfc3339(text(*found, "time"))) status.time = *time;
  status.bytes = count(*found, "bytes");
  status.duration_seconds = number(*found, "durationSeconds");
  return status;
}

}  // namespace

ProgressReport read_progress_report(const json& object, std::int64_t attempt, Time now) {
  ProgressReport report;
  report.attempt = attempt;
  report.epoch = count(object, "epoch");
  report.step = count(object, "step");
  report.total_steps = count(object, "totalSteps");
  report.loss = number(object, "loss");
  report.accuracy = number(object, "accuracy");
  report.samples_per_second = number(object, "samplesPerSecond");
  report.estimated_end = estimated_end(object, now);
  report.checkpoint = checkpoint(object);
  report.checkpoint_error = text(object, "checkpointError");
  report.waiting_for = text(object, "waitingFor");
  if (const auto record = object.find("checkpointRequest"); record != object.end()) {
    if (auto request = read_request_record(*record)) report.requests.push_back(*std::move(request));
  }
  return report;
}

std::optional<resource::CheckpointRequest> read_request_record(const json& record) {
  if (!record.is_object()) return std::nullopt;
  const std::string id = text(record, "id");
  const auto state = contract::request_state_from(text(record, "state"));
  if (id.empty() || !state) return std::nullopt;
  return resource::CheckpointRequest{.id = id,
                                     .state = *state,
                                     .step = count(record, "step"),
                                     .uri = text(record, "uri"),
                                     .time = {},
                                     .message = text(record, "message")};
}

}  // namespace trainyard::plan
