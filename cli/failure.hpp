#pragma once

#include <cstdio>

#include "common/exit_codes.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

/// Prints the error on standard error. Returns exit_failure.
inline int report(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return exit_failure;
}

}  // namespace trainyard::cli
