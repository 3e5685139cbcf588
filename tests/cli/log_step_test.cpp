#include "cli/log_step.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace trainyard::cli {
namespace {

using api::Phase;

struct Row {
  std::string_view name;
  Phase phase;
  std::int64_t attempt;
  std::optional<std::int64_t> wanted;
  std::int64_t printed;
  bool is_following;
  LogStep step;
};

TEST(NextLogStep, FollowsAJobAcrossItsAttemptsToItsRest) {
  const std::vector<Row> table{
      {"no pods yet", Phase::pending, 0, {}, 0, false, LogStep::end},
      {"no pods yet, followed", Phase::pending, 0, {}, 0, true, LogStep::wait},
      {"refused before its first pod, followed", Phase::failed, 0, {}, 0, true, LogStep::end},
      {"running", Phase::running, 2, {}, 0, false, LogStep::print},
      {"printed", Phase::running, 2, {}, 2, false, LogStep::end},
      {"the rank ended, the job not yet", Phase::running, 2, {}, 2, true, LogStep::wait},
      {"restarted", Phase::restarting, 3, {}, 2, true, LogStep::print},
      {"over, with an attempt that came meanwhile", Phase::failed, 3, {}, 2, true, LogStep::print},
      {"over", Phase::succeeded, 3, {}, 3, true, LogStep::end},
      {"its checkpoints go with it", Phase::deleting, 3, {}, 3, true, LogStep::end},
      {"suspended", Phase::suspended, 3, {}, 3, true, LogStep::end},
      {"an attempt of its own", Phase::running, 3, 1, 0, true, LogStep::print},
      {"an attempt of its own, printed", Phase::running, 3, 1, 1, true, LogStep::end},
  };
  for (const Row& row : table) {
    api::TrainingJobStatus status;
    status.phase = row.phase;
    status.attempt = row.attempt;
    EXPECT_EQ(next_log_step(status, row.wanted, row.printed, row.is_following), row.step) << row.name;
  }
}

}  // namespace
}  // namespace trainyard::cli
