#pragma once

#include <string_view>

namespace trainyard::cli {

/// What the URI of a folder of this machine begins with.
inline constexpr std::string_view file_scheme = "file://";

}  // namespace trainyard::cli
