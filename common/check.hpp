#pragma once

#include <string_view>

namespace trainyard {

/// Ends the process with `claim` and the caller's place in the source when `holds` is false. For bugs only: what can go
/// wrong in operation is a Result. The default arguments are the place, since clang 14 has no std::source_location.
void check(bool holds, std::string_view claim, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
           const char* function = __builtin_FUNCTION());

}  // namespace trainyard
