#include "operator/manager/status_fetch.hpp"

#include <fmt/format.h>

namespace trainyard::manager {

Result<std::string> fetch_status(const std::string& url, std::chrono::milliseconds deadline) {
  auto reply = exchange_with_rank(url, std::nullopt, deadline);
  if (!reply) return tl::unexpected{reply.error()};
  if (reply->status != 200) return fail(ErrorKind::unavailable, fmt::format("GET {}: HTTP {}", url, reply->status));
  return std::move(reply->body);
}

}  // namespace trainyard::manager
