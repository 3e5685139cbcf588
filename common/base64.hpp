#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard {

/// `bytes` in standard base64 (RFC 4648), padded and on one line.
[[nodiscard]] std::string encode_base64(std::string_view bytes);
/// The bytes of padded standard base64; line ends and spaces are skipped. ErrorKind::invalid otherwise.
[[nodiscard]] Result<std::string> decode_base64(std::string_view text);

}  // namespace trainyard
