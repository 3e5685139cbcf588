#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/result.hpp"
#include "operator/manager/rank_exchange.hpp"

namespace trainyard::manager {

/// Returns the body of a 200 reply to `GET url`, within `deadline`. Any thread may call.
using StatusFetch = std::function<Result<std::string>(const std::string& url, std::chrono::milliseconds deadline)>;

/// The StatusFetch by exchange_with_rank(). Another HTTP status than 200 is ErrorKind::unavailable too.
[[nodiscard]] Result<std::string> fetch_status(const std::string& url, std::chrono::milliseconds deadline);

}  // namespace trainyard::manager
