#include "operator/manager/progress_reading.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::manager {
namespace {

std::string text_of(const nlohmann::json& object, const char* field) {
  if (!object.is_object()) return {};
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

api::CheckpointRequest refused(std::string_view id, std::string message) {
  return {.id = std::string{id}, .state = api::RequestState::failed, .message = std::move(message)};
}

}  // namespace

Result<plan::ProgressReport> read_progress(std::string_view answer, std::string_view job_uid, std::int64_t attempt,
                                           Time now) {
  const auto object = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return fail(ErrorKind::corrupt, "the answer is not a JSON object");
  const auto uid = object.find("uid");
  const std::string answering_uid = uid != object.end() && uid->is_string() ? uid->get<std::string>() : std::string{};
  const auto number = object.find("attempt");
  const std::int64_t answering_attempt =
      number != object.end() && number->is_number_integer() ? number->get<std::int64_t>() : 0;
  if (answering_uid != job_uid || answering_attempt != attempt) {
    return fail(ErrorKind::conflict,
                fmt::format("attempt {} of the job with UID \"{}\" answered instead of attempt {} of \"{}\"",
                            answering_attempt, answering_uid.substr(0, 64), attempt, job_uid));
  }
  return plan::read_progress_report(object, attempt, now);
}

std::optional<api::CheckpointRequest> read_request_answer(const RankReply& reply, std::string_view id) {
  const auto object = nlohmann::json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  switch (reply.status) {
    case 200:
    case 202: {
      auto record = plan::read_request_record(object);
      return record && record->id == id ? std::move(record) : std::nullopt;
    }
    case 404:
    case 405:
    case 501:
      return refused(id, "the container does not take checkpoint requests");
    case 409:
      if (!text_of(object, "id").empty()) return std::nullopt;  // Rank 0 answers another request first.
      break;
    case 400:
    case 401:
    case 403:
      break;
    default:
      return std::nullopt;
  }
  const std::string sentence = text_of(object, "error");
  return refused(id, sentence.empty() ? fmt::format("rank 0 refused it: HTTP {}", reply.status)
                                      : fmt::format("rank 0 refused it: {}", sentence));
}

}  // namespace trainyard::manager
