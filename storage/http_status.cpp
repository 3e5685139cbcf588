#include "storage/http_status.hpp"

#include "common/http_status.hpp"

namespace trainyard::storage {
namespace {

constexpr std::chrono::seconds retry_after_max{300};

}  // namespace

ErrorKind kind_of_status(long status) {
  switch (status) {
    case 409:  // A fault of the server: a conflict with another writer has an error code, which the caller judges.
      return ErrorKind::unavailable;
    case 412:
      return ErrorKind::already_exists;
    case 416:
      return ErrorKind::corrupt;
    case 503:
      return ErrorKind::throttled;
    case 507:
      return ErrorKind::io;
    default:
      return kind_of_http_status(status);
  }
}

std::optional<std::chrono::milliseconds> retry_after_of(const HttpReply& reply) {
  return parse_retry_after(reply.header("retry-after"), retry_after_max);
}

}  // namespace trainyard::storage
