#pragma once

#include <string>

#include "common/result.hpp"

namespace trainyard::local {

/// The address of this machine that `host` sees: that of the interface which leads there. Sends nothing.
/// ErrorKind::unavailable where the name does not resolve, or no interface leads there.
[[nodiscard]] Result<std::string> own_address_towards(const std::string& host);

}  // namespace trainyard::local
