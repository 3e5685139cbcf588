#include "operator/kube/reply.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>

#include "common/http_status.hpp"
#include "common/text.hpp"

namespace trainyard::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Depth of managedFields in a list: the list's items, the item, its metadata, the field.
constexpr int field_depth_max = 4;

constexpr std::size_t foreign_body_bytes_max = 200;

ErrorKind kind_of(int http_status, std::string_view reason) {
  if (http_status < 400) return ErrorKind::internal;  // no server should send it as an error
  return http_status == 409 && reason == "AlreadyExists" ? ErrorKind::already_exists : kind_of_http_status(http_status);
}

/// True when admission refused the object, and not the schema: the same object may be admitted later. The HTTP status
/// does not show it: a webhook without a code of its own answers 400, a ValidatingAdmissionPolicy 422.
bool is_admission_denial(std::string_view message) {
  const auto contains = [&](std::string_view part) { return message.find(part) != std::string_view::npos; };
  return (contains("admission webhook ") && contains(" denied the request")) ||
         (contains("ValidatingAdmissionPolicy ") && contains(" denied request"));
}

std::string string_field(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::optional<milliseconds> retry_after_of(const nlohmann::json& status) {
  const auto details = status.find("details");
  if (details == status.end() || !details->is_object()) return std::nullopt;
  const auto found = details->find("retryAfterSeconds");
  if (found == details->end() || !found->is_number_integer()) return std::nullopt;
  const auto count = found->get<std::int64_t>();
  if (count <= 0) return std::nullopt;
  return std::min(seconds{count}, retry_after_max);
}

}  // namespace

json parse_object(std::string_view text) {
  const auto is_kept = [](int depth, json::parse_event_t event, const json& parsed) {
    return event != json::parse_event_t::key || depth > field_depth_max || parsed != "managedFields";
  };
  return json::parse(text, is_kept, /*allow_exceptions=*/false);
}

Error error_of_status(std::string_view tried, const nlohmann::json& status) {
  const auto code = status.find("code");
  const int http_status = code != status.end() && code->is_number_integer() ? code->get<int>() : 0;
  const std::string reason = string_field(status, "reason");
  std::string message = string_field(status, "message");
  if (message.empty()) message = "the server gave no reason";
  ErrorKind kind = reason == "Expired" ? ErrorKind::gone : kind_of(http_status, reason);
  if (kind == ErrorKind::invalid && is_admission_denial(message)) kind = ErrorKind::forbidden;
  return Error{
      .kind = kind,
      .message = fmt::format("{}: {} (HTTP {}{}{})", tried, message, http_status, reason.empty() ? "" : " ", reason),
      .retry_after = retry_after_of(status)};
}

Error error_of_reply(std::string_view tried, int http_status, std::string_view body,
                     std::optional<milliseconds> retry_after) {
  Error error;
  auto status = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (status.is_object() && string_field(status, "kind") == "Status") {
    status["code"] = http_status;
    error = error_of_status(tried, status);
  } else {
    const std::string text = keep_beginning(trim(body), foreign_body_bytes_max);
    error = {.kind = kind_of(http_status, ""),
             .message = fmt::format("{}: HTTP {}{}{}", tried, http_status, text.empty() ? "" : ": ", text),
             .retry_after = {}};
  }
  if (retry_after) error.retry_after = retry_after;
  return error;
}

}  // namespace trainyard::kube
