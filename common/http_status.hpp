#pragma once

#include "common/result.hpp"

namespace trainyard {

/// What an HTTP status that is no success means with any server (RFC 9110, section 15).
[[nodiscard]] ErrorKind kind_of_http_status(long status);

}  // namespace trainyard
