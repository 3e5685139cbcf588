#include "operator/manager/status_fetch.hpp"

#include <fmt/format.h>

#include "common/try.hpp"

namespace trainyard::manager {

Result<std::string> fetch_status(const std::string& url, std::chrono::milliseconds deadline) {
  auto reply = TRY(exchange_with_rank(url, std::nullopt, deadline));
  if (reply.status != 200) return fail(ErrorKind::unavailable, fmt::format("GET {}: HTTP {}", url, reply.status));
  return std::move(reply.body);
}

}  // namespace trainyard::manager
