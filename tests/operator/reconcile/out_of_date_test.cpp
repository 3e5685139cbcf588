#include <gtest/gtest.h>

#include "tests/operator/reconcile/reconciler_fixture.hpp"

// The cached job is older than the server's, or the server has none.

namespace trainyard::reconcile {
namespace {

using fakes::ApiCall;
using fakes::Fault;
using namespace std::chrono_literals;

class OutOfDateTest : public ReconcilerTest {
 protected:
  /// The cache has the job as it was before the reconciler's last write.
  void fall_behind() {
    apply();
    const api::TrainingJob old_job = *caches.jobs.find(key);
    work();
    caches.jobs.erase(key);
    caches.jobs.put(old_job);
  }
  /// Another process has begun the job's first attempt: the cache has its pods, and the job as it was before.
  void see_pods_first() {
    fall_behind();
    restart();
  }
  /// Expects that the reconciler has nothing to plan for once the server has no job.
  void expect_end() {
    ASSERT_TRUE(api.remove(kube::training_jobs, "research", "smoke"));
    const auto requeue = reconciler->reconcile(key);
    ASSERT_TRUE(requeue) << requeue.error().message;
    EXPECT_FALSE(*requeue);
    EXPECT_FALSE(caches.jobs.find(key));
  }
  void fail_gets(const Error& error) {
    faulty.set_schedule([error](const ApiCall& call) -> std::optional<Fault> {
      return call.verb == "get" ? std::optional{Fault{.error = error}} : std::nullopt;
    });
  }
};

TEST_F(OutOfDateTest, EndsWithAJobThatTheServerDoesNotHaveAnyMore) {
  fall_behind();
  expect_end();
}

TEST_F(OutOfDateTest, EndsWithOneWhosePodsAreAheadOfTheCacheToo) {
  see_pods_first();
  expect_end();
}

TEST_F(OutOfDateTest, FailsWhereTheServerDoesNotAnswer) {
  const Error no_answer{ErrorKind::unavailable, "no connection"};
  fall_behind();
  fail_gets(no_answer);
  const auto behind = reconciler->reconcile(key);
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error(), no_answer);
  restart();
  const auto pods_first = reconciler->reconcile(key);
  ASSERT_FALSE(pods_first);
  EXPECT_EQ(pods_first.error(), no_answer);
}

TEST_F(OutOfDateTest, EndsWithAJobThatIsGoneWhenItsStatusIsWritten) {
  apply();
  ASSERT_TRUE(api.remove(kube::training_jobs, "research", "smoke"));
  const auto requeue = reconciler->reconcile(key);
  ASSERT_TRUE(requeue) << requeue.error().message;
  EXPECT_FALSE(*requeue);
  EXPECT_FALSE(caches.jobs.find(key));
}

TEST_F(OutOfDateTest, PlansAtOnceAgainAfterAStatusAlone) {
  apply();
  work();
  progress.report = plan::ProgressReport{.attempt = 1, .step = 3};
  EXPECT_EQ(*reconciler->reconcile(key), 0ms);
}

}  // namespace
}  // namespace trainyard::reconcile
