#pragma once

#include <chrono>
#include <optional>

#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// What a status other than 2xx means to a caller, where nothing else is known of it. Pure.
[[nodiscard]] ErrorKind kind_of_status(long status);

/// What Retry-After says in seconds, up to five minutes; nothing when it is absent or a date. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> retry_after_of(const HttpReply& reply);

}  // namespace trainyard::storage
