#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "common/result.hpp"

namespace trainyard {

/// The kind of error that an HTTP status other than success means on any server (RFC 9110, section 15). The effect of
/// a 409 of the API server is at operator/reconcile/executor.hpp; docs/design-operator.md has a table of all others.
[[nodiscard]] ErrorKind kind_of_http_status(long status);

/// The seconds of a Retry-After header, at most `max`. Empty where `value` is anything else, such as a date.
[[nodiscard]] std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::chrono::seconds max);

}  // namespace trainyard
