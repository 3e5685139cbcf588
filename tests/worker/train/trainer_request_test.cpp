// Requests for checkpoints while training runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "api/contract.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/worker/train/saving_run.hpp"
#include "worker/train/trainer.hpp"

namespace trainyard::train {
namespace {

using contract::RequestState;
using rank::CheckpointRequest;
using rank::RequestRecord;
using rank::Then;

/// A run that saves its last step, and the checkpoints that rank 0 is asked for.
class AskedRun : public SavingRun {
 public:
  AskedRun(std::int64_t world_size, std::int64_t max_steps) : SavingRun{world_size, max_steps} {
    run.checkpoint->every.steps = 1000;
  }

  void ask(const CheckpointRequest& request) { run.ranks[0].link->ask_for_checkpoint(request); }
  /// Sends a request in the middle of step `step` (from 1). All ranks know of it as of the next step.
  void ask_at_step(std::int64_t step, const CheckpointRequest& request) {
    at_step(0, step, [this, request] { ask(request); });
  }
  /// Sends a request when rank 0 reports `phase` for the first time.
  void ask_in_phase(const std::string& phase, const CheckpointRequest& request) {
    run.ranks[0].link->on_report = [this, phase, request](const rank::RankProgress& progress) {
      if (progress.phase == phase) ask(request);
    };
  }
  /// The last report of rank `rank`.
  [[nodiscard]] std::optional<RequestRecord> record(std::size_t rank = 0) const {
    return run.ranks[rank].link->reports().back().checkpoint_request;
  }
  /// Makes every put of rank 1 for step `step` fail.
  void fail_at_step(std::int64_t step) {
    on_put([prefix = fmt::format("step-{}/", step)](std::int64_t rank, std::string_view key) -> std::optional<Error> {
      if (rank != 1 || !key.starts_with(prefix)) return std::nullopt;
      return Error{ErrorKind::io, "no space left on device", std::nullopt};
    });
  }
};

RequestRecord done(const CheckpointRequest& request, std::int64_t step) {
  return {
      .request = request, .state = RequestState::done, .step = step, .uri = fmt::format("memory://step-{}/g-1", step)};
}

RequestRecord failed(const CheckpointRequest& request, const std::string& why) {
  return {.request = request, .state = RequestState::failed, .message = why};
}

const CheckpointRequest go_on{.id = "a", .then = Then::go_on};
const CheckpointRequest leave{.id = "bye", .then = Then::exit};

TEST(TrainerOnRequest, SavesTheSameStepOnAllRanksOnceAndTrainsOnToEqualBits) {
  for (const std::int64_t world_size : {1, 2}) {
    AskedRun whole{world_size, 9};
    whole.run.run();
    AskedRun asked{world_size, 9};
    asked.ask_at_step(3, go_on);
    asked.run.run();
    for (std::size_t rank = 0; rank < asked.run.ranks.size(); ++rank) {
      EXPECT_EQ(asked.run.ranks[rank].end.reason, "Completed") << asked.run.ranks[rank].end.message;
      EXPECT_EQ(asked.run.ranks[rank].checksum, whole.run.ranks[rank].checksum);
      EXPECT_EQ(asked.saved(rank), (Steps{4, 9}));
    }
    EXPECT_EQ(asked.record(), done(go_on, 4));
    if (world_size > 1) {
      EXPECT_EQ(asked.record(1), std::nullopt) << "nobody asked rank 1";
    }
  }
}

TEST(TrainerOnRequest, WaitsForTheSaveUnderWayAndThenSavesAStepOfItsOwn) {
  AskedRun asked{2, 60};
  asked.run.checkpoint->every.steps = 2;
  fakes::Gate gate;
  asked.hold_up(2, gate);
  asked.ask_at_step(4, go_on);
  asked.at_step(1, 7, [&gate] { gate.open(); });
  asked.run.run();
  ASSERT_TRUE(asked.record().has_value());
  const std::int64_t step = asked.record()->step.value_or(0);
  EXPECT_GE(step, 8) << "what was under way is older than the request";
  EXPECT_EQ(asked.record(), done(go_on, step));
  for (const std::size_t rank : {0U, 1U}) EXPECT_TRUE(asked.saved(rank).contains(step)) << rank;
}

TEST(TrainerOnRequest, SavesAgainForTheNextOne) {
  const CheckpointRequest second{.id = "b"};
  AskedRun asked{2, 60};
  asked.ask_at_step(3, go_on);
  asked.run.ranks[0].link->on_report = [&](const rank::RankProgress& progress) {
    if (progress.checkpoint_request == done(go_on, 4)) asked.ask(second);
  };
  asked.run.run();
  ASSERT_TRUE(asked.record().has_value());
  const std::int64_t step = asked.record()->step.value_or(0);
  EXPECT_GT(step, 4);
  EXPECT_EQ(asked.record(), done(second, step));
  for (const std::size_t rank : {0U, 1U}) EXPECT_EQ(asked.saved(rank), (Steps{4, step, 60})) << rank;
}

TEST(TrainerOnRequest, EndsAllRanksAtTheSameStepAndResumesFromItToTheBit) {
  AskedRun whole{2, 9};
  whole.run.run();
  AskedRun asked{2, 9};
  asked.ask_at_step(3, leave);
  asked.run.run();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(asked.run.ranks[rank].end.exit_code, contract::exit_preempted);
    EXPECT_EQ(asked.run.ranks[rank].end.message, "stopped as asked after step 4, saved as memory://step-4/g-1");
    EXPECT_EQ(asked.saved(rank), (Steps{4}));
  }
  EXPECT_EQ(asked.record(), done(leave, 4));
  EXPECT_TRUE(asked.objects.objects.contains("generations/1.end")) << "it ended in order";

  AskedRun next{2, 9};
  next.objects.objects = asked.objects.objects;
  next.run.attempt = 2;
  next.run.run();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(next.run.ranks[rank].checksum, whole.run.ranks[rank].checksum);
  }
}

TEST(TrainerOnRequest, IsHeededInAValidationOnlyWhereItEndsTraining) {
  // Five steps an epoch, and a validation after each.
  struct Row {
    CheckpointRequest request;
    std::int64_t step;
    std::string_view reason;
  };
  for (const Row& row : {Row{go_on, 6, "Completed"}, Row{leave, 5, "Preempted"}}) {
    AskedRun asked{2, 9};
    asked.run.ranks[0].module->on_validation = [&, is_first = true](std::int64_t) mutable {
      if (std::exchange(is_first, false)) asked.ask(row.request);
    };
    asked.run.run();
    EXPECT_EQ(asked.run.ranks[1].end.reason, row.reason);
    EXPECT_EQ(asked.record(), done(row.request, row.step));
  }
}

TEST(TrainerOnRequest, IsAnsweredByTheOneSaveOfAStopThatComesMeanwhile) {
  AskedRun asked{2, 100};
  asked.at_step(0, 3, [&] {
    asked.ask(go_on);
    asked.run.ranks[0].link->request_stop();
  });
  asked.run.run();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(asked.run.ranks[rank].end.exit_code, contract::exit_preempted);
    EXPECT_EQ(asked.saved(rank), (Steps{4}));
  }
  EXPECT_EQ(asked.record(), done(go_on, 4));
}

TEST(TrainerOnRequest, IsAnsweredByTheSaveThatTrainingEndsWith) {
  for (const auto& [request, reason] : {std::pair{go_on, "Completed"}, std::pair{leave, "Preempted"}}) {
    AskedRun asked{2, 7};
    asked.ask_at_step(7, request);
    asked.run.run();
    EXPECT_EQ(asked.run.ranks[0].end.reason, reason) << "asked to end, it leaves the last validation";
    EXPECT_EQ(asked.record(), done(request, 7));
  }
}

TEST(TrainerOnRequest, SaysWhyItsSaveFailedAndTrainsOnOrEnds) {
  for (const bool ends : {false, true}) {
    const CheckpointRequest& request = ends ? leave : go_on;
    AskedRun asked{2, 9};
    asked.fail_at_step(4);
    asked.ask_at_step(3, request);
    asked.run.run();
    EXPECT_EQ(asked.record(), failed(request, "rank 1: no space left on device"));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const auto& end = asked.run.ranks[rank].end;
      EXPECT_EQ(end.exit_code, ends ? contract::exit_storage : contract::exit_success) << end.message;
      EXPECT_EQ(asked.saved(rank), ends ? Steps{} : Steps{9});
    }
  }
}

TEST(TrainerOnRequest, SaysThatAStateIsNotFinite) {
  for (const CheckpointRequest& request : {go_on, leave}) {
    AskedRun asked{1, 9};
    asked.run.ranks[0].module->loss_factor = std::numeric_limits<double>::infinity();
    asked.ask_at_step(3, request);
    asked.run.run();
    EXPECT_EQ(asked.record(), failed(request, "loss or parameters are not finite after step 4: nothing was saved"));
  }
}

TEST(TrainerOnRequest, WaitsForTheFirstStepWhereTrainingHasNotBegun) {
  AskedRun asked{2, 3};
  asked.ask(go_on);
  asked.run.run();
  EXPECT_EQ(asked.saved(1), (Steps{1, 3}));
  EXPECT_EQ(asked.record(), done(go_on, 1));
}

TEST(TrainerOnRequest, EndsTrainingThatHasNotBegunWithTheCheckpointThatItWouldResume) {
  AskedRun fresh{2, 9};
  fresh.ask(leave);
  fresh.run.run();
  EXPECT_EQ(fresh.run.ranks[1].end.exit_code, contract::exit_preempted);
  EXPECT_EQ(fresh.record(), failed(leave, "stopped as asked after step 0, before this attempt's first"));
  EXPECT_FALSE(fresh.objects.objects.contains("generations/1.json")) << "nothing is claimed";

  AskedRun first{2, 9};
  first.ask_at_step(3, leave);
  first.run.run();
  AskedRun resumed{2, 9};
  resumed.objects.objects = first.objects.objects;
  resumed.run.attempt = 2;
  resumed.ask_in_phase("Training", leave);
  resumed.run.run();
  EXPECT_EQ(resumed.run.ranks[1].end.exit_code, contract::exit_preempted);
  EXPECT_EQ(resumed.record(), done(leave, 4)) << "no step was made since";
}

TEST(TrainerOnRequest, StaysUnansweredInAGroupThatIsBroken) {
  AskedRun asked{2, 100};
  asked.ask_at_step(3, go_on);
  asked.run.ranks[1].module->on_step = [seen = 0](std::int64_t) mutable {
    if (++seen == 4) throw std::runtime_error{"this rank's code fails"};
  };
  asked.run.run();
  EXPECT_EQ(asked.run.ranks[0].end.exit_code, contract::exit_peer_lost) << asked.run.ranks[0].end.message;
  EXPECT_EQ(asked.record(), std::nullopt);
}

}  // namespace
}  // namespace trainyard::train
