// Trainings that lose a peer.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "api/contract.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/failing_exchange.hpp"
#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {
namespace {

const rank::RankEnd peer_lost{
    .exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "rank 1 was killed", .culprit = 1};

/// Lets the trainer make exchanges of every kind.
void exchange_all_kinds(TrainingRun& run, const std::string& weights) {
  run.training.max_steps = 3;
  run.training.log_every.steps = 1;
  run.training.validate_every = api::Every{.steps = 2};
  run.training.model.weights = weights;
  run.training.on_non_finite_loss = api::OnNonFiniteLoss::stop;
  run.training.strategy.check_parameters_every = 2;
  run.training_samples = 40;  // An epoch of two steps.
}

TEST(TrainerLost, EndsByTheReportOfTheLaunchersWhicheverExchangeFails) {
  const fakes::TemporaryFolder folder;
  TrainingRun earlier{1};
  earlier.training.max_steps = 1;
  earlier.checkpoint.emplace();
  earlier.checkpoint->uri = folder.uri() + "/earlier";
  earlier.run();

  std::int64_t exchanges = 1;
  for (std::int64_t number = 0; number <= exchanges; ++number) {
    const fakes::TemporaryFolder own_folder;
    TrainingRun run;
    exchange_all_kinds(run, earlier.checkpoint->uri);
    run.checkpoint.emplace();
    run.checkpoint->uri = own_folder.uri() + "/checkpoints";
    FailingExchange exchange{number, [&run] {
                               for (auto& rank : run.ranks) rank.link->break_group(peer_lost);
                             }};
    run.exchange = &exchange;
    run.run();
    const rank::RankEnd& end = run.ranks[0].end;
    if (number == 0) {
      ASSERT_EQ(end.reason, "Completed") << end.message;
      exchanges = exchange.count();
    } else {
      EXPECT_EQ(end, peer_lost) << "exchange " << number << " of " << exchanges << ": " << end.message;
    }
  }
  EXPECT_GT(exchanges, 20);
}

}  // namespace
}  // namespace trainyard::train
