#include <gtest/gtest.h>

#include "tests/operator/reconcile/reconciler_fixture.hpp"

// No step of a job that fares well is an error, and each is followed by the next at once.

namespace trainyard::reconcile {
namespace {

using api::Phase;
using builders::a_job;
using namespace std::chrono_literals;

class RequeueTest : public ReconcilerTest {
 protected:
  /// Reconciles until nothing is left to do at once. Each step must succeed. Returns the last answer.
  std::optional<std::chrono::milliseconds> take_steps() {
    for (int turn = 0; turn < 20; ++turn) {
      const auto requeue = reconciler->reconcile(key);
      if (!requeue) {
        ADD_FAILURE() << "step " << turn << ": " << requeue.error().message;
        return std::nullopt;
      }
      if (*requeue != 0ms) return *requeue;
    }
    ADD_FAILURE() << "the steps do not end";
    return std::nullopt;
  }
};

TEST_F(RequeueTest, GoesOnAtOnceFromTheFirstAttemptToTheRemovalOfTheService) {
  apply(a_job().clean_pods(api::CleanPods::running));
  take_steps();
  ASSERT_TRUE(stored().status.is_formed);
  ASSERT_EQ(caches.services.size(), 1U);
  end_all_pods(1);
  take_steps();
  EXPECT_EQ(stored().status.phase, Phase::succeeded);
  EXPECT_EQ(caches.services.size(), 0U);
  EXPECT_EQ(caches.pods.size(), 2U);
}

TEST_F(RequeueTest, GoesOnAtOnceAfterADryRunThatASuccessorRepeats) {
  apply();
  ASSERT_TRUE(reconciler->reconcile(key));
  ASSERT_EQ(stored().status.attempt, 0);
  restart();
  const auto checked = reconciler->reconcile(key);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(*checked, 0ms);
  take_steps();
  EXPECT_TRUE(stored().status.is_formed);
}

TEST_F(RequeueTest, WaitsAfterARefusalWithoutAnError) {
  apply();
  fail_pods({ErrorKind::forbidden, "exceeded quota: small"});
  const auto requeue = take_steps();
  ASSERT_TRUE(requeue);
  EXPECT_GT(*requeue, 0ms);
  EXPECT_LE(*requeue, 1s);
  EXPECT_EQ(stored().status.reason, "QuotaExceeded");
}

TEST_F(RequeueTest, ComesBackWhenTheTimeToLiveEnds) {
  apply(a_job().ttl(60s));
  take_steps();
  end_all_pods(1);
  EXPECT_EQ(take_steps(), 60s);
  clock.advance(20s);
  EXPECT_EQ(take_steps(), 40s);
}

}  // namespace
}  // namespace trainyard::reconcile
