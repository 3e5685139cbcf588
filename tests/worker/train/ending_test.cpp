#include "worker/train/ending.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::train {
namespace {

TEST(EndOf, SaysInItsExitCodeIfARestartCanHelp) {
  struct Case {
    Stage stage;
    ErrorKind kind;
    int exit_code;
    std::string reason;
  };
  const std::vector<Case> cases{
      {Stage::spec, ErrorKind::invalid, contract::exit_do_not_restart, "InvalidSpec"},
      {Stage::rendezvous, ErrorKind::invalid, contract::exit_do_not_restart, "InvalidEnvironment"},
      {Stage::rendezvous, ErrorKind::timeout, contract::exit_rendezvous, "RendezvousFailed"},
      {Stage::rendezvous, ErrorKind::unavailable, contract::exit_rendezvous, "RendezvousFailed"},
      {Stage::rendezvous, ErrorKind::cancelled, contract::exit_peer_lost, "PeerLost"},
      {Stage::rendezvous, ErrorKind::conflict, contract::exit_device, "DevicesDiffer"},
      {Stage::device, ErrorKind::unavailable, contract::exit_device, "DeviceMissing"},
      {Stage::device, ErrorKind::not_found, contract::exit_do_not_restart, "NoCuda"},
      {Stage::device, ErrorKind::internal, contract::exit_do_not_restart, "NoCuda"},
      {Stage::data, ErrorKind::not_found, contract::exit_do_not_restart, "InvalidData"},
      {Stage::data, ErrorKind::corrupt, contract::exit_do_not_restart, "InvalidData"},
      {Stage::data, ErrorKind::forbidden, contract::exit_do_not_restart, "InvalidData"},
      {Stage::data, ErrorKind::unavailable, contract::exit_storage, "StorageFailed"},
      {Stage::data, ErrorKind::invalid, contract::exit_do_not_restart, "InvalidData"},
      {Stage::data, ErrorKind::unauthorized, contract::exit_do_not_restart, "InvalidData"},
      {Stage::data, ErrorKind::timeout, contract::exit_storage, "StorageFailed"},
      {Stage::data, ErrorKind::throttled, contract::exit_storage, "StorageFailed"},
      {Stage::data, ErrorKind::io, contract::exit_failure, "DataFailed"},
      {Stage::data, ErrorKind::internal, contract::exit_failure, "DataFailed"},
      {Stage::checkpoint, ErrorKind::conflict, contract::exit_fenced, "Fenced"},
      {Stage::checkpoint, ErrorKind::invalid, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::checkpoint, ErrorKind::not_found, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::checkpoint, ErrorKind::unauthorized, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::checkpoint, ErrorKind::forbidden, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::checkpoint, ErrorKind::corrupt, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::checkpoint, ErrorKind::timeout, contract::exit_storage, "StorageFailed"},
      {Stage::checkpoint, ErrorKind::internal, contract::exit_storage, "StorageFailed"},
      {Stage::checkpoint, ErrorKind::unavailable, contract::exit_storage, "StorageFailed"},
      {Stage::checkpoint, ErrorKind::io, contract::exit_storage, "StorageFailed"},
      {Stage::checkpoint, ErrorKind::cancelled, contract::exit_peer_lost, "PeerLost"},
      {Stage::save, ErrorKind::unauthorized, contract::exit_storage, "StorageFailed"},
      {Stage::save, ErrorKind::forbidden, contract::exit_storage, "StorageFailed"},
      {Stage::save, ErrorKind::conflict, contract::exit_fenced, "Fenced"},
      {Stage::save, ErrorKind::invalid, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::save, ErrorKind::not_found, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::save, ErrorKind::cancelled, contract::exit_peer_lost, "PeerLost"},
      {Stage::save, ErrorKind::timeout, contract::exit_storage, "StorageFailed"},
      {Stage::save, ErrorKind::io, contract::exit_storage, "StorageFailed"},
      {Stage::step, ErrorKind::unavailable, contract::exit_peer_lost, "PeerLost"},
      {Stage::step, ErrorKind::timeout, contract::exit_peer_lost, "PeerLost"},
      {Stage::step, ErrorKind::cancelled, contract::exit_peer_lost, "PeerLost"},
      {Stage::step, ErrorKind::conflict, contract::exit_peer_lost, "PeerLost"},
      {Stage::step, ErrorKind::invalid, contract::exit_do_not_restart, "ModelsDiffer"},
      {Stage::step, ErrorKind::corrupt, contract::exit_failure, "ParametersDiffer"},
  };
  for (const Case& c : cases) {
    const rank::RankEnd expected{
        .exit_code = c.exit_code, .reason = c.reason, .message = "what came back", .culprit = {}};
    EXPECT_EQ(end_of(c.stage, {.kind = c.kind, .message = "what came back", .retry_after = {}}), expected)
        << "stage " << static_cast<int>(c.stage) << ", " << to_string(c.kind);
  }
}

TEST(EndOf, ChargesASaveOrARestoreThatFailsByItsDeviceToTheNodeAndNotToTheStorage) {
  const Error error{.kind = ErrorKind::internal,
                    .message = "copying the state to the host: CUDA error: uncorrectable ECC error encountered",
                    .retry_after = {}};
  for (const Stage stage : {Stage::save, Stage::checkpoint}) {
    EXPECT_EQ(
        end_of(stage, error),
        (rank::RankEnd{
            .exit_code = contract::exit_device, .reason = "DeviceFailed", .message = error.message, .culprit = {}}));
  }
}

TEST(EndOf, ChargesTheFailedDeviceOfAnotherRankToNoNode) {
  const Error error{.kind = ErrorKind::cancelled,
                    .message = "another rank cannot save: CUDA error: uncorrectable ECC error encountered",
                    .retry_after = {}};
  EXPECT_EQ(end_of(Stage::save, error).reason, "PeerLost");
}

TEST(EndOf, SaysThatTheDeviceHasTooLittleMemoryForASaveOrARestore) {
  Error error{
      .kind = ErrorKind::internal, .message = "copying the state to the host: CUDA out of memory", .retry_after = {}};
  for (const Stage stage : {Stage::save, Stage::checkpoint}) {
    EXPECT_EQ(end_of(stage, error), (rank::RankEnd{.exit_code = contract::exit_failure,
                                                   .reason = "DeviceOutOfMemory",
                                                   .message = error.message,
                                                   .culprit = {}}));
  }
  error.kind = ErrorKind::unavailable;
  EXPECT_EQ(end_of(Stage::save, error).reason, "StorageFailed") << "the storage's own error";
}

TEST(Lost, NamesTheRankThatTheLaunchersReportWhereTheErrorMayBeItsLoss) {
  const rank::RankEnd peer{
      .exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "rank 1 was killed", .culprit = 1};
  fakes::FakeRankLink link;
  link.break_group(peer);
  const auto end_with = [&](Stage stage, ErrorKind kind) {
    return lost(link, stage, {.kind = kind, .message = "the store is away", .retry_after = {}}).value();
  };
  EXPECT_EQ(end_with(Stage::step, ErrorKind::internal), peer);
  for (const Stage stage : {Stage::data, Stage::checkpoint, Stage::save}) {
    EXPECT_EQ(end_with(stage, ErrorKind::unavailable), peer);
    EXPECT_EQ(end_with(stage, ErrorKind::cancelled), peer);
    EXPECT_EQ(end_with(stage, ErrorKind::forbidden).exit_code, end_of(stage, {ErrorKind::forbidden, "", {}}).exit_code)
        << "a refusal is no loss of a rank";
  }
}

TEST(Lost, WaitsForTheRankThatTheLaunchersReportWhereALossLooksLikeAStorageFailure) {
  const rank::RankEnd peer{
      .exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "rank 1 was killed", .culprit = 1};
  for (const Stage stage : {Stage::checkpoint, Stage::save}) {
    fakes::FakeRankLink link;
    std::jthread launcher{[&] {
      link.wait_for_looks(2);
      link.break_group(peer);
    }};
    const rank::RankEnd ended =
        lost(link, stage, {.kind = ErrorKind::unavailable, .message = "the store is away", .retry_after = {}}).value();
    EXPECT_EQ(ended, peer);
    for (int look = 0; look < 2; ++look) (void)link.group_failure();  // Lets the launcher end.
  }
}

TEST(Preempted, SaysWhereTheStateIs) {
  const std::vector<std::pair<Stop, std::string>> cases{
      {{.step = 7}, "stopped as asked after step 7; nothing was saved: checkpoint.uri is not set"},
      {{.step = 7, .has_trained = true}, "stopped as asked after step 7; nothing was saved: checkpoint.uri is not set"},
      {{.step = 7, .is_saving = true}, "stopped as asked after step 7, before this attempt's first"},
      {{.step = 7, .is_saving = true, .saved_as = "s3://models/x/step-7/g-1"},
       "stopped as asked after step 7, before this attempt's first, saved as s3://models/x/step-7/g-1"},
      {{.step = 7, .has_trained = true, .is_saving = true, .saved_as = "s3://models/x/step-7/g-1"},
       "stopped as asked after step 7, saved as s3://models/x/step-7/g-1"},
      {{.step = 7, .has_trained = true, .is_saving = true},
       "stopped as asked after step 7; it was not saved because it is not finite: training goes on from the checkpoint "
       "before"}};
  for (const auto& [stop, message] : cases) {
    const rank::RankEnd expected{
        .exit_code = contract::exit_preempted, .reason = "Preempted", .message = message, .culprit = {}};
    EXPECT_EQ(preempted(stop), expected);
  }
}

TEST(Completed, ReportsTheLastValidation) {
  const rank::RankEnd ended = completed({.step = 900, .validation = {{"val_accuracy", 0.89123}, {"val_loss", 0.3}}});
  EXPECT_EQ(ended.exit_code, contract::exit_success);
  EXPECT_EQ(ended.reason, "Completed");
  EXPECT_EQ(ended.message, "trained 900 steps, val_accuracy 0.8912, val_loss 0.3");
  EXPECT_EQ(
      completed(
          {.step = 7, .loss = 0.5, .validation = {{"val_loss", 0.3}}, .reason_to_stop = "stopped early: no better"})
          .message,
      "trained 7 steps, stopped early: no better, val_loss 0.3, training loss 0.5");
}

TEST(AlreadyComplete, SaysHowToTrainOn) {
  const rank::RankEnd at_the_end = already_complete("file:///c/step-9/g-1", false);
  EXPECT_EQ(at_the_end.exit_code, contract::exit_success);
  EXPECT_EQ(at_the_end.reason, "AlreadyComplete");
  EXPECT_EQ(at_the_end.message,
            "already complete: file:///c/step-9/g-1 is the end of this training. To train on, raise training.epochs or "
            "training.maxSteps; to train afresh, set checkpoint.resume to none");
  EXPECT_EQ(already_complete("file:///c/step-9/g-1", true).message,
            "already complete: file:///c/step-9/g-1 is the end of this training, which a callback or earlyStopping "
            "ended before its last step. To train on, name an earlier checkpoint in checkpoint.resume, with another "
            "uri; to train afresh, set checkpoint.resume to none");
}

TEST(Completed, SaysWhenTheWeightsMayBeUseless) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(completed({.step = 7, .loss = nan}).message,
            "trained 7 steps, training loss nan; a loss since the last log line was not finite, and the weights may be "
            "useless: with training.onNonFiniteLoss stop, rewind or skip they would not be");
  EXPECT_EQ(
      completed({.step = 7, .loss = nan, .skipped_steps = 2}).message,
      "trained 7 steps, training loss nan; steps of this attempt that were left out, in whole or in part, since a "
      "loss was not finite: 2");
  EXPECT_EQ(completed({.step = 7, .loss = 0.5, .skipped_steps = 0}).message, "trained 7 steps, training loss 0.5");
}

TEST(EndedBy, ALossThatIsNotFiniteFailsTheJobOrRestartsTheGroup) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ended_by({.step = 12, .rank = 3, .loss = infinity}),
            (rank::RankEnd{.exit_code = contract::exit_do_not_restart,
                           .reason = "NonFiniteLoss",
                           .message = "the loss of rank 3 is inf in step 12; training.onNonFiniteLoss is stop: try a "
                                      "smaller optimizer.lr or gradientClip, or look at the data of that step",
                           .culprit = {}}));
  EXPECT_EQ(ended_by({.step = 12, .rank = 0, .loss = -infinity, .is_rewound = true}),
            (rank::RankEnd{.exit_code = contract::exit_failure,
                           .reason = "NonFiniteLoss",
                           .message = "the loss of rank 0 is -inf in step 12; training.onNonFiniteLoss is rewind: the "
                                      "group goes back to its newest checkpoint",
                           .culprit = {}}));
}

}  // namespace
}  // namespace trainyard::train
