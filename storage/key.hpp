#pragma once

#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

/// Success when `key` may be an object's key: 1 to 900 bytes without control characters, in parts between '/', of which
/// none is empty or begins with '.'. A key therefore never leaves its store's prefix and never names a temporary file,
/// which is hidden. ErrorKind::invalid otherwise.
[[nodiscard]] Result<void> check_key(std::string_view key);

}  // namespace trainyard::storage
