#include "operator/manager/progress_reading.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::manager {

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

}  // namespace trainyard::manager
