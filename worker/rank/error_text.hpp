#pragma once

#include <cstring>
#include <string>

namespace trainyard::rank {

/// The system's message for `error`, a value of errno.
[[nodiscard]] inline std::string error_text(int error) {
  return std::strerror(error);  // NOLINT(concurrency-mt-unsafe): thread-safe in glibc.
}

}  // namespace trainyard::rank
