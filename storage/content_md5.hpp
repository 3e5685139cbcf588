#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "storage/store.hpp"

namespace trainyard::storage {

/// The MD5 of `pieces` as the header Content-MD5 holds it: in base64 (RFC 1864). Empty where OpenSSL has no MD5, as in
/// FIPS 140 mode.
[[nodiscard]] std::optional<std::string> content_md5(Pieces pieces);

/// True when `told`, a Content-MD5, is not the MD5 of `pieces`. False when it is empty or cannot be checked.
[[nodiscard]] bool is_other_md5(std::string_view told, Pieces pieces);

}  // namespace trainyard::storage
