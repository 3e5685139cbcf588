#include <gtest/gtest.h>

#include "operator/plan/clean_pods.hpp"
#include "operator/plan/decide.hpp"
#include "operator/plan/plan_actions.hpp"
#include "tests/builders/an_observed.hpp"

// How long a plan waits: for the API server, for backoff, for the job's deadline and for its time to live.

namespace trainyard::plan {
namespace {

using api::Phase;
using builders::a_job;
using builders::an_observed;
using builders::later;
using builders::start;
using std::chrono::milliseconds;
using namespace std::chrono_literals;
using Left = std::optional<milliseconds>;

TEST(TimeUntilCreation, IsTheLongerOfBackoffAndOfWhatARefusalCosts) {
  struct Row {
    std::string sentence;
    std::int64_t refusals;
    std::optional<Time> not_before;
    milliseconds until_asked;
    milliseconds until_creation;
  };
  const std::vector<Row> rows{
      {"nothing hinders", 0, {}, 0s, 0s},
      {"backoff", 0, later + 3s, 0s, 3s},
      {"backoff that is over", 0, later - 3s, 0s, 0s},
      {"the first refusal, four seconds ago", 1, {}, 0s, 0s},
      {"the fourth", 4, {}, 4s, 4s},
      {"the hundredth costs no more than half a minute", 100, {}, 26s, 26s},
      {"the longer of both is the refusal's", 4, later + 3s, 4s, 4s},
      {"or the backoff's", 4, later + 5s, 4s, 5s},
  };
  for (const Row& row : rows) {
    const Observed observed = an_observed().with([&](Observed& changed) {
      if (row.refusals > 0) changed.refusal = Refusal{.count = row.refusals, .last = later - 4s};
      changed.job.status.restart_not_before = row.not_before;
    });
    EXPECT_EQ(time_until_retry_of_refused(observed, later), row.until_asked) << row.sentence;
    EXPECT_EQ(time_until_creation(observed, later), row.until_creation) << row.sentence;
  }
}

TEST(TimeUntilDeadline, RunsFromTheStartWhileTheJobIsNotSuspended) {
  const auto left = [](Phase phase, std::optional<Time> since, bool has_deadline = true) {
    api::TrainingJob job = has_deadline ? a_job().deadline(60s) : a_job();
    job.status.phase = phase;
    job.status.start_time = since;
    return time_until_deadline(job, later);
  };
  EXPECT_EQ(left(Phase::running, later - 57s), Left{3s});
  EXPECT_EQ(left(Phase::pending, later - 60s), Left{0s});
  EXPECT_EQ(left(Phase::restarting, later - 1h), Left{0s});
  EXPECT_EQ(left(Phase::running, {}), Left{});
  EXPECT_EQ(left(Phase::running, later - 57s, false), Left{});
  EXPECT_EQ(left(Phase::suspending, later - 57s), Left{});
  EXPECT_EQ(left(Phase::suspended, later - 57s), Left{});
}

TEST(TimeUntilDeletion, RunsFromTheEndOfAJobThatHasOne) {
  const auto left = [](std::optional<std::chrono::seconds> ttl, std::optional<Time> ended_at) {
    api::TrainingJob job = a_job();
    job.spec.ttl_after_finished = ttl;
    job.status.completion_time = ended_at;
    return time_until_deletion(job, later);
  };
  EXPECT_EQ(left(60s, later - 57s), Left{3s});
  EXPECT_EQ(left(60s, later - 61s), Left{0s});
  EXPECT_EQ(left(0s, later), Left{0s});
  EXPECT_EQ(left({}, later), Left{});
  EXPECT_EQ(left(60s, {}), Left{});
}

}  // namespace
}  // namespace trainyard::plan
