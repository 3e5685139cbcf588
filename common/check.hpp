#pragma once

#include <string_view>

namespace trainyard {

/// Ends the process with the place and `claim` when `holds` is false. For bugs only: what can go wrong in operation is
/// a Result. The place fills itself in; clang 14 has no std::source_location.
void check(bool holds, std::string_view claim, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
           const char* function = __builtin_FUNCTION());

}  // namespace trainyard
