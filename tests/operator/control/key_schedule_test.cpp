#include "operator/control/key_schedule.hpp"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const ObjectKey a{"ns", "a"};
const ObjectKey b{"ns", "b"};
const Instant start{};

KeySchedule schedule() {
  return KeySchedule{
      {.keys_max = 2,
       .backoff = {.initial = milliseconds{100}, .max = seconds{1}, .factor = 2.0, .jitter_share = 0.0}}};
}

TEST(KeySchedule, GivesAKeyOnceHoweverOftenItWasAdded) {
  KeySchedule keys = schedule();
  EXPECT_TRUE(keys.add(a, start));
  EXPECT_TRUE(keys.add(a, start));
  EXPECT_EQ(keys.take(start), a);
  EXPECT_EQ(keys.take(start), std::nullopt);
}

TEST(KeySchedule, GivesTheKeyThatHasBeenDueForLongest) {
  KeySchedule keys = schedule();
  keys.add(a, start + seconds{2});
  keys.add(b, start + seconds{1});
  EXPECT_EQ(keys.take(start + seconds{3}), b);
  EXPECT_EQ(keys.take(start + seconds{3}), a);
}

TEST(KeySchedule, GivesNoKeyBeforeItIsDue) {
  KeySchedule keys = schedule();
  keys.add(a, start + seconds{5});
  EXPECT_EQ(keys.take(start + seconds{4}), std::nullopt);
  EXPECT_EQ(keys.next_due(), start + seconds{5});
  EXPECT_EQ(keys.take(start + seconds{5}), a);
}

TEST(KeySchedule, KeepsTheSoonestTimeAskedFor) {
  KeySchedule keys = schedule();
  keys.add(a, start + seconds{5});
  keys.add(a, start + seconds{1});
  keys.add(a, start + seconds{9});
  EXPECT_EQ(keys.next_due(), start + seconds{1});
  EXPECT_EQ(keys.size(), 1U);
}

TEST(KeySchedule, GivesAKeyThatIsAskedForSoonerOnce) {
  KeySchedule keys = schedule();
  keys.add(a, start + seconds{5});
  keys.add(a, start + seconds{1});
  EXPECT_EQ(keys.take(start + seconds{9}), a);
  EXPECT_EQ(keys.take(start + seconds{9}), std::nullopt);
  EXPECT_EQ(keys.next_due(), std::nullopt);
}

TEST(KeySchedule, HoldsAKeyBackWhileSomebodyHasIt) {
  KeySchedule keys = schedule();
  keys.add(a, start);
  ASSERT_EQ(keys.take(start), a);
  keys.add(a, start + seconds{1});
  keys.add(a, start);
  EXPECT_EQ(keys.take(start + seconds{2}), std::nullopt);
  EXPECT_EQ(keys.next_due(), std::nullopt) << "nobody is to wait for a key that cannot be taken";
  keys.finish(a);
  EXPECT_EQ(keys.take(start), a);
  keys.finish(a);
  EXPECT_EQ(keys.take(start + seconds{9}), std::nullopt);
}

TEST(KeySchedule, GivesAKeyThatWasAskedForMeanwhileWhenItIsDue) {
  KeySchedule keys = schedule();
  keys.add(a, start);
  ASSERT_EQ(keys.take(start), a);
  EXPECT_EQ(keys.size(), 0U);
  keys.add(a, start + seconds{5});
  keys.add(a, start + seconds{9});
  EXPECT_EQ(keys.size(), 1U);
  keys.finish(b);
  EXPECT_EQ(keys.next_due(), std::nullopt) << "another key was finished";
  keys.finish(a);
  EXPECT_EQ(keys.next_due(), start + seconds{5});
  keys.finish(a);
  EXPECT_EQ(keys.take(start + seconds{4}), std::nullopt);
  EXPECT_EQ(keys.take(start + seconds{5}), a);
}

TEST(KeySchedule, TakesNoMoreKeysThanItsBound) {
  KeySchedule keys = schedule();
  EXPECT_TRUE(keys.add(a, start));
  EXPECT_TRUE(keys.add(b, start));
  EXPECT_FALSE(keys.add({"ns", "c"}, start));
  EXPECT_TRUE(keys.add(a, start)) << "it is waiting already";
  ASSERT_TRUE(keys.take(start));
  EXPECT_TRUE(keys.add({"ns", "c"}, start));
}

TEST(KeySchedule, LengthensTheWaitOfEachKeyByItself) {
  KeySchedule keys = schedule();
  Instant now = start;
  for (const int delay : {100, 200, 400, 800, 1000, 1000}) {
    EXPECT_EQ(keys.count_failure(a, now, 0.5), milliseconds{delay});
    now += milliseconds{delay};
  }
  EXPECT_EQ(keys.count_failure(b, now, 0.5), milliseconds{100});
  keys.forget_failures(a);
  EXPECT_EQ(keys.count_failure(a, now, 0.5), milliseconds{100});
}

TEST(KeySchedule, DoesNotLengthenTheWaitOfAKeyThatChangesWakeBeforeItsEnd) {
  KeySchedule keys = schedule();
  EXPECT_EQ(keys.count_failure(a, start, 0.5), milliseconds{100});
  EXPECT_EQ(keys.count_failure(a, start, 0.5), milliseconds{100});
  EXPECT_EQ(keys.count_failure(a, start + milliseconds{99}, 0.5), milliseconds{1});
  EXPECT_EQ(keys.count_failure(a, start + milliseconds{100}, 0.5), milliseconds{200});
}

}  // namespace
}  // namespace trainyard::control
