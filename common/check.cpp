#include "common/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace trainyard {

void check(bool holds, std::string_view claim, const char* file, int line, const char* function) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: in %s: this should never happen: %.*s\n", file, line, function,
               static_cast<int>(claim.size()), claim.data());
  std::abort();
}

}  // namespace trainyard
