#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::kube {

/// The bytes of standard base64 (RFC 4648, padded; line ends are skipped). ErrorKind::invalid otherwise.
[[nodiscard]] Result<std::string> decode_base64(std::string_view text);

}  // namespace trainyard::kube
