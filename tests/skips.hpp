#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace trainyard::tests {

/// For a test, or its SetUp(), to return with where this machine lacks what it needs: it is skipped and says why. With
/// CI=true it fails: a machine that cannot run a check has not run it.
inline void cannot_run(const std::string& reason) {
  const char* ci = std::getenv("CI");
  if (ci != nullptr && std::string_view{ci} == "true") FAIL() << reason;
  GTEST_SKIP() << reason;
}

}  // namespace trainyard::tests
