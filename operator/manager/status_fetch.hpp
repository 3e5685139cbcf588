#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/result.hpp"

namespace trainyard::manager {

/// The body of a 200 to `GET url`, whatever else it takes within `deadline`. Any thread may call.
using StatusFetch = std::function<Result<std::string>(const std::string& url, std::chrono::milliseconds deadline)>;

/// Over plain HTTP. ErrorKind::unavailable: no connection, or another HTTP status; timeout; corrupt: longer than 64
/// KiB.
[[nodiscard]] Result<std::string> fetch_status(const std::string& url, std::chrono::milliseconds deadline);

}  // namespace trainyard::manager
