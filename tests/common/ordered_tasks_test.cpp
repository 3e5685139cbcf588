#include "common/ordered_tasks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/fakes/gate.hpp"

namespace trainyard {
namespace {

TEST(OrderedTasks, GiveTheirResultsInTheOrderInWhichTheyWereAddedThoughLaterOnesEndFirst) {
  fakes::Gate gate;
  OrderedTasks<std::string> tasks{2};
  tasks.add([&] {
    gate.pass();
    return std::string{"first"};
  });
  tasks.add([] { return std::string{"second"}; });
  tasks.add([&] {
    gate.open();  // Reached only because the other thread goes on.
    return std::string{"third"};
  });
  EXPECT_EQ(tasks.size(), 3U);
  EXPECT_EQ(tasks.take(), "first");
  EXPECT_EQ(tasks.take(), "second");
  EXPECT_EQ(tasks.take(), "third");
  EXPECT_EQ(tasks.size(), 0U);
}

TEST(OrderedTasks, ThrowWhatATaskThrewWhenItsTurnHasCome) {
  OrderedTasks<int> tasks{1};
  tasks.add([] { return 1; });
  tasks.add([]() -> int { throw std::runtime_error{"no such file"}; });
  tasks.add([] { return 3; });
  EXPECT_EQ(tasks.take(), 1);
  EXPECT_THROW(std::ignore = tasks.take(), std::runtime_error);
  EXPECT_EQ(tasks.take(), 3);
}

TEST(OrderedTasks, AreDroppedWhereTheyHaveNotBegunAndWaitedForWhereTheyRun) {
  fakes::Gate gate;
  std::atomic<int> ended{0};
  auto tasks = std::make_unique<OrderedTasks<int>>(1);
  for (int task = 0; task < 3; ++task) {
    tasks->add([&] {
      gate.pass();
      return ++ended;
    });
  }
  gate.wait_for_arrival();
  std::jthread ends{[&] { tasks.reset(); }};
  gate.open();
  ends.join();
  EXPECT_GE(ended, 1);
}

}  // namespace
}  // namespace trainyard
