#pragma once

#include <chrono>
#include <optional>

#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// The kind of error that a status other than 2xx means, where the reply says nothing more. Pure.
[[nodiscard]] ErrorKind kind_of_status(long status);

/// The seconds of the header Retry-After, at most five minutes. Empty when it is absent or a date. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> retry_after_of(const HttpReply& reply);

}  // namespace trainyard::storage
