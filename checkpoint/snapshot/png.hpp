#pragma once

#include <string>

#include "checkpoint/snapshot/picture.hpp"
#include "common/result.hpp"

namespace trainyard::snapshot {

/// The bytes of a PNG file of 8 bits a channel. ErrorKind::internal with libpng's words when it refuses.
[[nodiscard]] Result<std::string> encode_png(const Picture& picture);

}  // namespace trainyard::snapshot
