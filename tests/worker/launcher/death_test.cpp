#include "worker/launcher/culprit.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

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
      // Only a rank's number and a colon name the rank that met the error.
      {{.exit_code = 95}, storage_failed("file 7: no answer"), {2, 95, "StorageFailed", "rank 2: file 7: no answer"}},
      {{.exit_code = 95}, storage_failed("rank : no answer"), {2, 95, "StorageFailed", "rank 2: rank : no answer"}},
      {{.exit_code = 95}, storage_failed("rank 7"), {2, 95, "StorageFailed", "rank 2: rank 7"}},
      {{.exit_code = 95}, storage_failed("rank 7:x"), {2, 95, "StorageFailed", "rank 2: rank 7:x"}},
      {{.exit_code = 1}, {}, {2, 1, "Error", "rank 2 exited with code 1; its log says why"}},
      {{.exit_code = 93}, words, {2, 93, "InvalidData", "rank 2: no file /data/x"}},
      {{.exit_code = 1}, words, {2, 1, "Error", "rank 2 exited with code 1; its log says why"}},
      {{.signal = SIGKILL}, words, {2, 137, "Killed", "rank 2 was killed by signal 9 (SIGKILL)"}},
      {{.signal = SIGHUP}, {}, {2, 129, "Killed", "rank 2 was killed by signal 1 (SIGHUP)"}},
      {{.signal = 60}, {}, {2, 188, "Killed", "rank 2 was killed by signal 60"}},
      {{.signal = SIGSEGV}, {}, {2, 139, "Crashed", "rank 2 crashed with signal 11 (SIGSEGV); its log may say more"}},
      {{.signal = SIGABRT}, {}, {2, 134, "Crashed", "rank 2 crashed with signal 6 (SIGABRT); its log may say more"}},
      {{.signal = SIGILL}, {}, {2, 132, "Crashed", "rank 2 crashed with signal 4 (SIGILL); its log may say more"}},
      {{.signal = SIGFPE}, {}, {2, 136, "Crashed", "rank 2 crashed with signal 8 (SIGFPE); its log may say more"}},
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

TEST(DeathOf, ReadsTheStatusOfAProcessAndAShellsCodeFollowsFromIt) {
  struct Case {
    int wait_status;
    Death death;
    int exit_code;
  };
  for (const auto& [wait_status, death, exit_code] :
       {Case{W_EXITCODE(0, 0), {}, 0}, Case{W_EXITCODE(3, 0), {.exit_code = 3}, 3},
        Case{W_EXITCODE(0, SIGKILL), {.signal = SIGKILL}, 137},
        Case{W_EXITCODE(0, SIGSEGV) | WCOREFLAG, {.signal = SIGSEGV}, 139}}) {
    EXPECT_EQ(death_of(wait_status), death) << wait_status;
    EXPECT_EQ(exit_code_of(death), exit_code) << wait_status;
  }
}

TEST(EndOfOthers, IsPeerLostWithTheCulpritOrTheFailureItselfWhereNobodyIs) {
  EXPECT_EQ(end_of_others({.culprit = 2, .exit_code = 1, .reason = "Error", .message = "m"}),
            (rank::RankEnd{.exit_code = contract::exit_peer_lost,
                           .reason = "PeerLost",
                           .message = "m",
                           .culprit = 2,
                           .culprit_exit_code = 1}));
  EXPECT_EQ(
      end_of_others({.culprit = 2, .exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "silent"}),
      (rank::RankEnd{.exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "silent", .culprit = 2}))
      << "nobody knows with which code the culprit ended";
  EXPECT_EQ(end_of_others({.culprit = {}, .exit_code = 94, .reason = "Rendezvous", .message = "m"}),
            (rank::RankEnd{.exit_code = 94, .reason = "Rendezvous", .message = "m", .culprit = {}}));
}

}  // namespace
}  // namespace trainyard::launcher
