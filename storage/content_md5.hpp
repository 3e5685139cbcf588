#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "storage/store.hpp"

namespace trainyard::storage {

/// The MD5 of `pieces` as the header Content-MD5 holds it: in base64 (RFC 1864). Nothing where OpenSSL is without MD5,
/// as where it keeps to FIPS 140.
[[nodiscard]] std::optional<std::string> content_md5(Pieces pieces);

/// Whether `told`, a Content-MD5, is of other bytes than `pieces`. Never where it is empty or cannot be checked.
[[nodiscard]] bool is_other_md5(std::string_view told, Pieces pieces);

}  // namespace trainyard::storage
