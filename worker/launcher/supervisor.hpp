#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.hpp"
#include "worker/launcher/collective_mismatch.hpp"
#include "worker/launcher/culprit.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::launcher {

struct SupervisorSettings {
  std::int64_t first_rank = 0;  ///< Global rank of this launcher's first rank process.
  std::int64_t rank_count = 1;
  std::chrono::milliseconds alive_deadline{10'000};  ///< For a rank's next message, after its first.
  std::chrono::milliseconds hang_deadline{600'000};  ///< For the next beat, in the phases that are named below.
  std::chrono::milliseconds stop_deadline{25'000};   ///< From SIGTERM to SIGKILL.
  std::chrono::milliseconds farewell{1'000};         ///< For a rank to end by itself once the group is broken.
  std::chrono::milliseconds cause_deadline{
      1'500};  ///< How long a rank's exit with peer_lost waits for a verdict with the cause.
};

/// Decides about this launcher's rank processes: which of them hang, which to stop, when to kill them, and how the
/// launcher ends. Pure: its inputs are events with their time, its outputs are actions.
///
/// A rank hangs when it sends nothing for `alive_deadline` after a message, or no beat for `hang_deadline` while it
/// trains or validates, or has not reported its phase yet. It is killed, and becomes the culprit with reason Hang and
/// exit code 95 (docs/design-worker.md, "How is the culprit of a hang named?"). A program that never sends a message is
/// not watched.
class Supervisor {
 public:
  struct SendSignal {
    std::int64_t local_rank = 0;
    int signal = 0;
    bool operator==(const SendSignal&) const = default;
  };
  struct TellRank {
    std::int64_t local_rank = 0;
    rank::RankEnd end;
    bool operator==(const TellRank&) const = default;
  };
  using Action = std::variant<SendSignal, TellRank>;

  Supervisor(const SupervisorSettings& settings, Instant now);

  void on_message(std::int64_t local_rank, const rank::RankMessage& message, Instant now);
  void on_death(std::int64_t local_rank, const Death& death, Instant now);
  /// Handles SIGTERM and SIGINT. The first one is passed on to the ranks as SIGTERM: they save, if they can, and end.
  /// The second one kills them at once.
  void on_stop(Instant now);
  /// Handles the verdict, on which all launchers agree.
  void on_verdict(const GroupFailure& verdict, Instant now);
  void on_time(Instant now);

  [[nodiscard]] std::vector<Action> take_actions();
  /// The first failure of this launcher's ranks, to be reported to the group. It does not change once it is set.
  [[nodiscard]] const std::optional<GroupFailure>& own_failure() const { return own_failure_; }
  [[nodiscard]] bool have_all_ended() const;
  /// True once the rank makes no further step, or the group is broken.
  [[nodiscard]] bool is_training_over(std::int64_t local_rank) const;
  /// How this launcher ends. Set once all of its ranks have ended and, unless all succeeded or stopped as asked, there
  /// is a verdict.
  [[nodiscard]] std::optional<rank::RankEnd> end() const;
  /// Global rank for the termination message: the culprit when it is one of this launcher's ranks, else the first of
  /// these.
  [[nodiscard]] std::int64_t culprit_or_first_rank() const;
  [[nodiscard]] const std::optional<rank::RankProgress>& progress(std::int64_t local_rank) const;
  /// The running ranks that have waited for others for long, and have said so a moment ago.
  [[nodiscard]] std::vector<LongWait> long_waits(Instant now) const;

 private:
  struct Rank {
    std::optional<Instant> alive;  ///< Time of the last message of any kind.
    std::optional<Instant> beat;   ///< Time of the last sign of progress.
    std::string long_wait;         ///< The long wait of the last beat message.
    Instant long_wait_at;          ///< Time of that message.
    std::optional<rank::RankProgress> progress;
    std::optional<rank::RankEnd> said;
    std::optional<Death> death;
    bool has_ended_as_meant = false;
  };

  /// True for a rank that ended with exit code 0 before its training had reached its end: the other ranks would wait
  /// for it.
  [[nodiscard]] static bool has_left_early(const Rank& rank);
  void check_for_hang(std::int64_t local_rank, Instant now);
  void kill_running();
  void set_own_failure(GroupFailure failure);
  [[nodiscard]] std::optional<GroupFailure> failure_of_death(std::int64_t local_rank) const;
  [[nodiscard]] std::int64_t global(std::int64_t local_rank) const { return settings_.first_rank + local_rank; }

  SupervisorSettings settings_;
  std::vector<Rank> ranks_;
  std::vector<Action> actions_;
  Instant looked_;
  std::optional<Instant> stop_asked_;
  bool is_stop_urgent_ = false;  ///< The launcher was asked twice to stop.
  bool has_grace_ended_ = false;
  std::optional<Instant> lost_a_peer_;  ///< When one of our ranks first exited with peer_lost.
  std::optional<GroupFailure> own_failure_;
  std::optional<GroupFailure> verdict_;
  std::optional<Instant> kill_at_;
};

}  // namespace trainyard::launcher
