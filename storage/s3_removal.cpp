#include "storage/s3_removal.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "storage/s3_client.hpp"
#include "storage/server_error.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

// The error of one object, read by s3_error() as if it were a whole reply. The status is 500, so that s3_error() takes
// an unknown code for a fault of the server, which may pass.
Error error_of_object(std::string_view refusal, std::string_view doing, const S3Config& config) {
  const HttpReply reply{.status = 500, .headers = {}, .body = std::string{refusal}};
  return s3_error(reply, fmt::format("{}: {}", doing, sanitize_server_text(xml::text_of(refusal, "Key"), {})), config);
}

}  // namespace

std::string removal_text(std::span<const std::string> objects) {
  std::string text = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>";
  for (const std::string& object : objects) text += fmt::format("<Object><Key>{}</Key></Object>", xml::escaped(object));
  return text + "</Delete>";
}

Result<void> check_removal(const HttpReply& reply, std::string_view doing, const S3Config& config) {
  const auto result = xml::element(reply.body, "DeleteResult");
  if (!result) {
    // A slow server answers 200 first and may find an error afterwards.
    if (xml::element(reply.body, "Error")) return tl::unexpected(error_of_object(reply.body, doing, config));
    return fail(ErrorKind::invalid, fmt::format("{}: the reply does not say what was removed: is {} an S3 server?",
                                                doing, config.endpoint()));
  }
  std::optional<Error> worst;
  std::size_t error_count = 0;
  for (const std::string_view refusal : xml::elements(*result, "Error")) {
    if (xml::text_of(refusal, "Code") == "NoSuchKey") continue;
    ++error_count;
    const Error error = error_of_object(refusal, doing, config);
    if (!worst || (is_transient(worst->kind) && !is_transient(error.kind))) worst = error;
  }
  if (!worst) return {};
  if (error_count > 1) worst->message += fmt::format(" (and {} more objects are not removed)", error_count - 1);
  return tl::unexpected(*worst);
}

bool is_without_removal(const HttpReply& reply) {
  const std::string code = xml::text_of(reply.body, "Code");
  switch (reply.status) {
    case 404:
      return code != "NoSuchBucket";
    case 405:
    case 411:
    case 501:
      return true;
    case 400:
      return code == "NotImplemented" || code == "InvalidRequest" || code == "InvalidArgument" ||
             code == "MalformedXML" || code == "MethodNotAllowed";
    default:
      return false;
  }
}

}  // namespace trainyard::storage
