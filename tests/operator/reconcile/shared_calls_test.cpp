#include "operator/reconcile/shared_calls.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/fakes/gate.hpp"

namespace trainyard::reconcile {
namespace {

Result<void> fail_at(std::size_t index, std::size_t first_bad) {
  if (index < first_bad) return {};
  return fail(ErrorKind::unavailable, "call " + std::to_string(index));
}

TEST(SharedCalls, AreMadeOnceEachInOrder) {
  std::vector<std::size_t> made;
  SharedCalls calls{3, [&](std::size_t index) { return made.push_back(index), Result<void>{}; },
                    [](const Error&) { return true; }};
  EXPECT_TRUE(calls.make_next());
  calls.make_all();
  EXPECT_FALSE(calls.make_next());
  EXPECT_EQ(made, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_TRUE(calls.outcome());
}

TEST(SharedCalls, EndAtTheFirstErrorThatStopsThem) {
  std::size_t made = 0;
  SharedCalls calls{9, [&](std::size_t index) { return ++made, fail_at(index, 2); }, [](const Error&) { return true; }};
  calls.make_all();
  EXPECT_EQ(made, 3U);
  EXPECT_EQ(calls.outcome().error().message, "call 2");
}

TEST(SharedCalls, ContinueAfterAnyOtherErrorAndReturnTheFirst) {
  std::size_t made = 0;
  SharedCalls calls{9, [&](std::size_t index) { return ++made, fail_at(index, 2); },
                    [](const Error&) { return false; }};
  calls.make_all();
  EXPECT_EQ(made, 9U);
  EXPECT_EQ(calls.outcome().error().message, "call 2");
}

TEST(SharedCalls, OfOtherThreadsContinueWhileOneHangs) {
  fakes::Gate first;
  fakes::Gate last;
  last.open();
  SharedCalls calls{4,
                    [&](std::size_t index) {
                      if (index == 0) first.pass();
                      if (index == 3) last.pass();
                      return Result<void>{};
                    },
                    [](const Error&) { return true; }};
  const std::jthread hangs{[&] { calls.make_all(); }};
  first.wait_for_arrival();
  calls.make_all();
  last.wait_for_arrival();
  first.open();
}

}  // namespace
}  // namespace trainyard::reconcile
