#include "common/http_status.hpp"

#include <algorithm>
#include <cstdint>

#include "common/text.hpp"

namespace trainyard {

ErrorKind kind_of_http_status(long status) {
  switch (status) {
    case 401:
      return ErrorKind::unauthorized;
    case 403:
      return ErrorKind::forbidden;
    case 404:
      return ErrorKind::not_found;
    case 408:
    case 504:
      return ErrorKind::timeout;
    case 409:
      return ErrorKind::conflict;
    case 410:
      return ErrorKind::gone;
    case 429:
      return ErrorKind::throttled;
    default:
      break;
  }
  return status >= 500 ? ErrorKind::unavailable : ErrorKind::invalid;
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::chrono::seconds max) {
  const auto count = parse_number<std::int64_t>(value);
  if (!count || *count < 0) return std::nullopt;
  return std::min(std::chrono::seconds{*count}, max);
}

}  // namespace trainyard
