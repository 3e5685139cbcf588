#include "storage/http_status.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "common/http_status.hpp"

namespace trainyard::storage {
namespace {

constexpr std::chrono::seconds retry_after_max{300};

}  // namespace

ErrorKind kind_of_status(long status) {
  switch (status) {
    case 409:  // A fault of the server's: where another writer is meant, it says so by a code.
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
  const std::string text = reply.header("retry-after");
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::min<std::chrono::milliseconds>(std::chrono::seconds{seconds}, retry_after_max);
}

}  // namespace trainyard::storage
