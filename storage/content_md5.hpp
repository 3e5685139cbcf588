#pragma once

#include <string>

#include "storage/store.hpp"

namespace trainyard::storage {

/// The MD5 of `pieces` as the header Content-MD5 holds it: in base64 (RFC 1864).
[[nodiscard]] std::string content_md5(Pieces pieces);

}  // namespace trainyard::storage
