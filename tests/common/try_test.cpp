#include "common/try.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/result.hpp"

namespace trainyard {
namespace {

const Error refusal{ErrorKind::conflict, "patching a: HTTP 409", std::chrono::seconds{2}};

Result<int> seven() {
  return 7;
}
Result<int> no_number() {
  return tl::unexpected(refusal);
}
Result<void> nothing() {
  return {};
}
Result<void> not_even_nothing() {
  return tl::unexpected(refusal);
}

/// Counts the copies of an object and of what it is copied from.
struct Copied {
  Copied() = default;
  Copied(const Copied& other) : copies{other.copies + 1} {}
  Copied(Copied&& other) noexcept = default;
  Copied& operator=(const Copied&) = delete;
  Copied& operator=(Copied&&) = delete;
  ~Copied() = default;
  int copies = 0;
};

struct MoveOnly {
  explicit MoveOnly(int its_number) : number{its_number} {}
  MoveOnly(const MoveOnly&) = delete;
  MoveOnly(MoveOnly&&) noexcept = default;
  MoveOnly& operator=(const MoveOnly&) = delete;
  MoveOnly& operator=(MoveOnly&&) noexcept = default;
  ~MoveOnly() = default;
  int number;
};

/// Counts itself in `count` as long as it exists.
class Holder {
 public:
  explicit Holder(int& count) : count_{count} { ++count_; }
  Holder(const Holder&) = delete;
  Holder(Holder&&) = delete;
  Holder& operator=(const Holder&) = delete;
  Holder& operator=(Holder&&) = delete;
  ~Holder() { --count_; }

 private:
  int& count_;
};

TEST(Try, IsTheValueOfAResult) {
  const auto next = []() -> Result<int> {
    const int number = TRY(seven());
    return number + 1;
  };
  EXPECT_EQ(next(), 8);
}

TEST(Try, AssignsTheValueOfAResult) {
  const auto sum = []() -> Result<int> {
    int number = 0;
    number = TRY(seven());
    return number;
  };
  EXPECT_EQ(sum(), 7);
}

TEST(Try, ReturnsTheWholeErrorAndRunsNothingAfterIt) {
  bool is_past = false;
  const auto next = [&]() -> Result<int> {
    const int number = TRY(no_number());
    is_past = true;
    return number + 1;
  };
  EXPECT_EQ(next().error(), refusal);
  EXPECT_FALSE(is_past);
}

TEST(Try, OfAResultWithoutAValueIsAStatement) {
  int passed = 0;
  const auto run = [&](bool is_good) -> Result<void> {
    TRY(nothing());
    ++passed;
    if (!is_good) TRY(not_even_nothing());
    ++passed;
    return {};
  };
  EXPECT_TRUE(run(true));
  EXPECT_EQ(passed, 2);
  EXPECT_EQ(run(false).error(), refusal);
  EXPECT_EQ(passed, 3);
}

TEST(Try, GivesUpAValueThatNobodyNames) {
  const auto run = []() -> Result<void> {
    TRY(seven());
    TRY(no_number());
    return {};
  };
  EXPECT_EQ(run().error(), refusal);
}

TEST(Try, ReturnsTheErrorOfOneTypeAsThatOfAnother) {
  const auto name = []() -> Result<std::string> {
    const int number = TRY(no_number());
    return std::to_string(number);
  };
  EXPECT_EQ(name().error(), refusal);
}

TEST(Try, ForwardsAnErrorOfAnotherType) {
  const auto next = []() -> tl::expected<int, std::string> {
    const int number = TRY(tl::expected<int, std::string>{tl::unexpected(std::string{"no"})});
    return number + 1;
  };
  EXPECT_EQ(next().error(), "no");
}

TEST(Try, MovesAValueThatCannotBeCopied) {
  const auto made = [](int number) -> Result<MoveOnly> { return MoveOnly{number}; };
  const auto sum = [&]() -> Result<int> {
    const MoveOnly one = TRY(made(1));
    auto other = TRY(made(2));
    return one.number + other.number;
  };
  EXPECT_EQ(sum(), 3);
}

TEST(Try, CopiesNoValue) {
  const auto copies = []() -> Result<int> {
    const Copied moved = TRY(Result<Copied>{tl::in_place});
    Result<Copied> result{tl::in_place};
    TRY(result);
    const int kept = result->copies;
    const Copied given = TRY(std::move(result));
    return moved.copies + kept + given.copies;
  };
  EXPECT_EQ(copies(), 0);
}

TEST(Try, LeavesAVariableItsValueOrItsError) {
  Result<MoveOnly> result = MoveOnly{1};
  const auto run = [&]() -> Result<void> {
    TRY(result);
    return {};
  };
  EXPECT_TRUE(run());
  EXPECT_EQ(result->number, 1);
  result = tl::unexpected(refusal);
  EXPECT_EQ(run().error(), refusal);
  EXPECT_EQ(result.error(), refusal);
}

TEST(Try, LooksThroughAnOptionalOnce) {
  const auto has_value = []() -> Result<bool> {
    const std::optional<int> value = TRY(Result<std::optional<int>>{std::nullopt});
    return value.has_value();
  };
  EXPECT_EQ(has_value(), false);
}

TEST(Try, MayStandInsideALambdaOfItsOwnExpression) {
  const auto twice = [](auto&& number) -> Result<int> { return *number() * 2; };
  const auto run = [&]() -> Result<int> {
    const int number = TRY(twice([]() -> Result<int> {
      const int inner = TRY(seven());
      return inner;
    }));
    return number;
  };
  EXPECT_EQ(run(), 14);
}

TEST(Try, DestroysWhatTheEnclosingScopesHoldWhenItReturns) {
  int held = 0;
  const auto run = [&]() -> Result<void> {
    const Holder outer{held};
    for (int i = 0; i < 2; ++i) {
      const Holder inner{held};
      if (i == 1) TRY(not_even_nothing());
    }
    return {};
  };
  EXPECT_FALSE(run());
  EXPECT_EQ(held, 0);
}

TEST(Try, DestroysTheTemporariesOfItsExpressionWhenItReturns) {
  int held = 0;
  const auto refuse = [](const Holder&) -> Result<int> { return tl::unexpected(refusal); };
  const auto run = [&]() -> Result<int> {
    const int number = TRY(refuse(Holder{held}));
    return number;
  };
  EXPECT_FALSE(run());
  EXPECT_EQ(held, 0);
}

}  // namespace
}  // namespace trainyard
