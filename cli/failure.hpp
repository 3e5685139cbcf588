#pragma once

#include <cstdio>

#include "common/result.hpp"

namespace trainyard::cli {

/// What a command exits with when it could not do its work.
inline constexpr int exit_failure = 1;

/// Says the error on standard error, and gives exit_failure for `return`.
inline int report(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return exit_failure;
}

}  // namespace trainyard::cli
