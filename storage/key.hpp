#pragma once

#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

/// Success for an object's key: 1 to 900 bytes, parts between '/', none of them empty or with a leading '.', no control
/// characters. So a key never leaves its store's prefix and never meets the temporary files, which are hidden.
/// ErrorKind::invalid otherwise.
[[nodiscard]] Result<void> check_key(std::string_view key);

}  // namespace trainyard::storage
