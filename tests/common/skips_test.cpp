#include "tests/skips.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include <array>
#include <optional>

namespace trainyard::tests {
namespace {

void set_ci(const char* value) {
  if (value == nullptr) {
    ::unsetenv("CI");
  } else {
    ::setenv("CI", value, 1);
  }
}

TEST(CannotRun, SkipsAndFailsOnlyInCi) {
  struct Row {
    const char* ci;
    testing::TestPartResult::Type outcome;
  };
  constexpr auto skipped = testing::TestPartResult::kSkip;
  constexpr std::array rows{Row{nullptr, skipped}, Row{"", skipped}, Row{"false", skipped},
                            Row{"true", testing::TestPartResult::kFatalFailure}};
  const char* given = std::getenv("CI");
  const auto before = given == nullptr ? std::nullopt : std::optional<std::string>{given};
  for (const Row& row : rows) {
    set_ci(row.ci);
    testing::TestPartResultArray results;
    {
      const testing::ScopedFakeTestPartResultReporter reporter{
          testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results};
      cannot_run("no such tool");
    }
    set_ci(before ? before->c_str() : nullptr);
    ASSERT_EQ(results.size(), 1);
    EXPECT_EQ(results.GetTestPartResult(0).type(), row.outcome);
    EXPECT_THAT(results.GetTestPartResult(0).message(), testing::HasSubstr("no such tool"));
  }
}

}  // namespace
}  // namespace trainyard::tests
