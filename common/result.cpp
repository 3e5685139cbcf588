#include "common/result.hpp"

#include <fmt/format.h>

#include "common/check.hpp"

namespace trainyard {

tl::unexpected<Error> fail(ErrorKind kind, std::string message, std::optional<std::chrono::milliseconds> retry_after) {
  return tl::unexpected<Error>(Error{.kind = kind, .message = std::move(message), .retry_after = retry_after});
}

tl::unexpected<Error> fail(std::string_view context, const Error& error) {
  return tl::unexpected<Error>(Error{
      .kind = error.kind, .message = fmt::format("{}: {}", context, error.message), .retry_after = error.retry_after});
}

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::already_exists:
      return "already_exists";
    case ErrorKind::conflict:
      return "conflict";
    case ErrorKind::gone:
      return "gone";
    case ErrorKind::unauthorized:
      return "unauthorized";
    case ErrorKind::forbidden:
      return "forbidden";
    case ErrorKind::throttled:
      return "throttled";
    case ErrorKind::unavailable:
      return "unavailable";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::io:
      return "io";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::internal:
      return "internal";
  }
  check(false, "an ErrorKind without a name");
  return "";
}

bool is_transient(ErrorKind kind) {
  return kind == ErrorKind::throttled || kind == ErrorKind::unavailable || kind == ErrorKind::timeout ||
         kind == ErrorKind::conflict;
}

}  // namespace trainyard
