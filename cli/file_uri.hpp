#pragma once

#include <string_view>

namespace trainyard::cli {

/// The beginning of a URI for a folder of this machine.
inline constexpr std::string_view file_scheme = "file://";

}  // namespace trainyard::cli
