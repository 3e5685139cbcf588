#include "worker/launcher/failure.hpp"

#include <gtest/gtest.h>

#include <csignal>

#include "api/contract.hpp"

namespace trainyard::launcher {
namespace {

TEST(FailureOf, NamesTheRankAndTheCause) {
  struct Case {
    Death death;
    std::optional<rank::RankEnd> said;
    GroupFailure failure;
  };
  const rank::RankEnd words{.exit_code = 93, .reason = "InvalidData", .message = "no file /data/x", .culprit = {}};
  const auto storage_failed = [](const std::string& message) {
    return rank::RankEnd{.exit_code = 95, .reason = "StorageFailed", .message = message, .culprit = {}};
  };
  const std::vector<Case> cases{
      {{.exit_code = 95},
       storage_failed("rank 0: look into s3://models: no answer"),
       {2, 95, "StorageFailed", "rank 0: look into s3://models: no answer"}},
      {{.exit_code = 95},
       storage_failed("rank 0 and others: no answer"),
       {2, 95, "StorageFailed", "rank 2: rank 0 and others: no answer"}},
      {{.exit_code = 1}, {}, {2, 1, "Error", "rank 2 exited with code 1; its log says why"}},
      {{.exit_code = 93}, words, {2, 93, "InvalidData", "rank 2: no file /data/x"}},
      {{.exit_code = 1}, words, {2, 1, "Error", "rank 2 exited with code 1; its log says why"}},
      {{.signal = SIGKILL}, words, {2, 137, "Killed", "rank 2 was killed by signal 9 (SIGKILL)"}},
      {{.signal = SIGSEGV}, {}, {2, 139, "Crashed", "rank 2 crashed with signal 11 (SIGSEGV); its log may say more"}},
      {{.signal = SIGBUS},
       {},
       {2, 135, "Crashed", "rank 2 crashed with signal 7 (SIGBUS): often /dev/shm or a mapped file's disk is full"}},
      {{.signal = SIGKILL, .is_out_of_memory = true},
       {},
       {2, 137, "OOMKilled",
        "rank 2 was killed by the kernel because the container ran out of memory: give it more, or train with a "
        "smaller batch"}},
  };
  for (const auto& [death, said, failure] : cases) EXPECT_EQ(failure_of(2, death, said), failure) << failure.message;
}

TEST(EndOfOthers, IsPeerLostWithTheCulpritOrTheFailureItselfWhereNobodyIs) {
  EXPECT_EQ(end_of_others({.culprit = 2, .exit_code = 1, .reason = "Error", .message = "m"}),
            (rank::RankEnd{.exit_code = contract::exit_peer_lost,
                           .reason = "PeerLost",
                           .message = "m",
                           .culprit = 2,
                           .culprit_exit_code = 1}));
  EXPECT_EQ(end_of_others({.culprit = {}, .exit_code = 94, .reason = "Rendezvous", .message = "m"}),
            (rank::RankEnd{.exit_code = 94, .reason = "Rendezvous", .message = "m", .culprit = {}}));
}

}  // namespace
}  // namespace trainyard::launcher
