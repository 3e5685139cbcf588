#include "operator/manager/progress_reading.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/rfc3339.hpp"

namespace trainyard::manager {
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
  return status;
}

}  // namespace

Result<plan::ProgressReport> read_progress(std::string_view answer, std::string_view job_uid, std::int64_t attempt,
                                           Time now) {
  const auto object = json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return fail(ErrorKind::corrupt, "the answer is not a JSON object");
  const std::string answering_uid = text(object, "uid");
  if (answering_uid != job_uid || count(object, "attempt") != attempt) {
    return fail(ErrorKind::conflict,
                fmt::format("attempt {} of the job with UID \"{}\" answered instead of attempt {} of \"{}\"",
                            count(object, "attempt").value_or(0), answering_uid.substr(0, 64), attempt, job_uid));
  }
  plan::ProgressReport report;
  report.attempt = attempt;
  report.epoch = count(object, "epoch");
  report.step = count(object, "step");
  report.total_steps = count(object, "totalSteps");
  report.loss = number(object, "loss");
  report.accuracy = number(object, "accuracy");
  report.samples_per_second = number(object, "samplesPerSecond");
  report.estimated_end = estimated_end(object, now);
  report.checkpoint = checkpoint(object);
  report.waiting_for = text(object, "waitingFor");
  return report;
}

}  // namespace trainyard::manager
