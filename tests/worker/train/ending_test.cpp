#include "worker/train/ending.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/contract.hpp"

namespace trainyard::train {
namespace {

TEST(EndOf, TellsTheOperatorWhetherARestartCanHelp) {
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
      {Stage::data, ErrorKind::not_found, contract::exit_do_not_restart, "InvalidData"},
      {Stage::data, ErrorKind::corrupt, contract::exit_do_not_restart, "InvalidData"},
      {Stage::data, ErrorKind::forbidden, contract::exit_do_not_restart, "InvalidData"},
      {Stage::data, ErrorKind::unavailable, contract::exit_storage, "StorageFailed"},
      {Stage::data, ErrorKind::io, contract::exit_failure, "DataFailed"},
      {Stage::checkpoint, ErrorKind::conflict, contract::exit_fenced, "Fenced"},
      {Stage::checkpoint, ErrorKind::invalid, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::checkpoint, ErrorKind::not_found, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::checkpoint, ErrorKind::unauthorized, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::checkpoint, ErrorKind::unavailable, contract::exit_storage, "StorageFailed"},
      {Stage::checkpoint, ErrorKind::io, contract::exit_storage, "StorageFailed"},
      {Stage::checkpoint, ErrorKind::cancelled, contract::exit_peer_lost, "PeerLost"},
      {Stage::save, ErrorKind::unauthorized, contract::exit_storage, "StorageFailed"},
      {Stage::save, ErrorKind::forbidden, contract::exit_storage, "StorageFailed"},
      {Stage::save, ErrorKind::conflict, contract::exit_fenced, "Fenced"},
      {Stage::save, ErrorKind::invalid, contract::exit_do_not_restart, "InvalidCheckpoint"},
      {Stage::save, ErrorKind::io, contract::exit_storage, "StorageFailed"},
      {Stage::step, ErrorKind::unavailable, contract::exit_peer_lost, "PeerLost"},
      {Stage::step, ErrorKind::timeout, contract::exit_peer_lost, "PeerLost"},
      {Stage::step, ErrorKind::invalid, contract::exit_do_not_restart, "ModelsDiffer"},
      {Stage::step, ErrorKind::corrupt, contract::exit_failure, "ParametersDiffer"},
  };
  for (const Case& c : cases) {
    const launcher::RankEnd expected{
        .exit_code = c.exit_code, .reason = c.reason, .message = "what came back", .culprit = {}};
    EXPECT_EQ(end_of(c.stage, {.kind = c.kind, .message = "what came back", .retry_after = {}}), expected)
        << "stage " << static_cast<int>(c.stage) << ", " << to_string(c.kind);
  }
}

}  // namespace
}  // namespace trainyard::train
