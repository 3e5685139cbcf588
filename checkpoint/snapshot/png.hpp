#pragma once

#include <string>

#include "checkpoint/snapshot/picture.hpp"
#include "common/result.hpp"

namespace trainyard::snapshot {

/// A PNG file with 8 bits a channel. ErrorKind::internal with libpng's message when libpng refuses.
[[nodiscard]] Result<std::string> encode_png(const Picture& picture);

}  // namespace trainyard::snapshot
