#include "operator/plan/progress_report.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "api/request.hpp"
#include "common/time_text.hpp"
#include "operator/plan/conditions.hpp"

namespace trainyard::plan {
namespace {

using nlohmann::json;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr double eta_seconds_max = 10.0 * 365 * 86'400;
/// maxLength of every URI in the status (crds/).
constexpr std::size_t uri_bytes_max = 2048;
/// RFC 3339 writes a year with four digits.
constexpr Time time_max{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31}};

std::optional<std::int64_t> count(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<std::int64_t>();
  return value < 0 ? std::nullopt : std::optional{value};
}

std::optional<double> number(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return std::nullopt;
  if (found->is_null()) return std::numeric_limits<double>::quiet_NaN();  // JSON cannot express it otherwise
  return found->is_number() ? std::optional{found->get<double>()} : std::nullopt;
}

std::string text(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

/// Empty if the URI is too long for the status: a URI that is cut names nothing.
std::string uri(const json& object) {
  std::string value = text(object, "uri");
  return value.size() <= uri_bytes_max ? value : std::string{};
}

std::optional<Time> time(const json& object) {
  const auto value = parse_rfc3339(text(object, "time"));
  return value && *value >= Time{} && *value < time_max ? std::optional{*value} : std::nullopt;
}

std::optional<Time> estimated_end(const json& object, Time now) {
  const auto eta_seconds = number(object, "etaSeconds");
  if (!eta_seconds || !(*eta_seconds >= 0.0) || *eta_seconds > eta_seconds_max) return std::nullopt;
  return now + duration_cast<milliseconds>(std::chrono::duration<double>{*eta_seconds});
}

std::optional<api::CheckpointStatus> checkpoint(const json& object) {
  const auto found = object.find("checkpoint");
  if (found == object.end() || !found->is_object()) return std::nullopt;
  const auto step = count(*found, "step");
  if (!step) return std::nullopt;
  api::CheckpointStatus status;
  status.step = *step;
  status.uri = uri(*found);
  status.time = time(*found);
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
  report.checkpoint_error = bounded_text(text(object, "checkpointError"));
  report.waiting_for = bounded_text(text(object, "waitingFor"));
  if (const auto record = object.find("checkpointRequest"); record != object.end()) {
    if (auto request = read_request_record(*record)) report.requests.push_back(*std::move(request));
  }
  return report;
}

std::optional<api::CheckpointRequest> read_request_record(const json& record) {
  if (!record.is_object()) return std::nullopt;
  const std::string id = text(record, "id");
  const auto state = contract::request_state_from(text(record, "state"));
  if (!contract::is_request_id(id) || !state) return std::nullopt;
  return api::CheckpointRequest{.id = id,
                                .state = *state,
                                .step = count(record, "step"),
                                .uri = uri(record),
                                .time = {},
                                .message = bounded_text(text(record, "message"))};
}

}  // namespace trainyard::plan
