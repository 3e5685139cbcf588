#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/result.hpp"
#include "operator/manager/rank_exchange.hpp"

namespace trainyard::manager {

/// The body of a 200 to `GET url`, whatever else it takes within `deadline`. Any thread may call.
using StatusFetch = std::function<Result<std::string>(const std::string& url, std::chrono::milliseconds deadline)>;

/// By exchange_with_rank; another HTTP status than 200 is ErrorKind::unavailable too.
[[nodiscard]] Result<std::string> fetch_status(const std::string& url, std::chrono::milliseconds deadline);

}  // namespace trainyard::manager
