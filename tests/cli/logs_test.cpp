#include "cli/logs.hpp"

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
  LogAction action;
};

TEST(NextLogAction, FollowsAJobAcrossItsAttemptsToItsRest) {
  const std::vector<Row> table{
      {"no pods yet", Phase::pending, 0, {}, 0, false, LogAction::end},
      {"no pods yet, followed", Phase::pending, 0, {}, 0, true, LogAction::wait},
      {"refused before its first pod, followed", Phase::failed, 0, {}, 0, true, LogAction::end},
      {"running", Phase::running, 2, {}, 0, false, LogAction::print},
      {"printed", Phase::running, 2, {}, 2, false, LogAction::end},
      {"the rank ended, the job not yet", Phase::running, 2, {}, 2, true, LogAction::wait},
      {"restarted", Phase::restarting, 3, {}, 2, true, LogAction::print},
      {"over, with an attempt that came meanwhile", Phase::failed, 3, {}, 2, true, LogAction::print},
      {"over", Phase::succeeded, 3, {}, 3, true, LogAction::end},
      {"its checkpoints go with it", Phase::deleting, 3, {}, 3, true, LogAction::end},
      {"suspended", Phase::suspended, 3, {}, 3, true, LogAction::end},
      {"an attempt of its own", Phase::running, 3, 1, 0, true, LogAction::print},
      {"an attempt of its own, printed", Phase::running, 3, 1, 1, true, LogAction::end},
  };
  for (const Row& row : table) {
    api::TrainingJobStatus status;
    status.phase = row.phase;
    status.attempt = row.attempt;
    EXPECT_EQ(next_log_action(status, row.wanted, row.printed, row.is_following), row.action) << row.name;
  }
}

}  // namespace
}  // namespace trainyard::cli
