#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.hpp"
#include "worker/launcher/death.hpp"
#include "worker/launcher/group_failure.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::launcher {

struct SupervisorSettings {
  std::int64_t first_rank = 0;  ///< Global rank of this launcher's first rank process.
  std::int64_t rank_count = 1;
  std::chrono::milliseconds alive_deadline{10'000};  ///< Of a process that has said once that it is alive.
  std::chrono::milliseconds hang_deadline{600'000};  ///< Without a beat, while training or validating.
  std::chrono::milliseconds stop_deadline{25'000};   ///< From SIGTERM to SIGKILL.
  std::chrono::milliseconds farewell{1'000};         ///< What a rank gets to end by itself once the group is broken.
  std::chrono::milliseconds cause_deadline{1'500};  ///< How long a rank's peer_lost waits for somebody's better reason.
};

/// Decides about this launcher's rank processes: whom to stop, when to kill, what the end was. Pure: it is told what
/// happened and when, and says what to do.
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
  /// SIGTERM or SIGINT; a second one does not wait any more.
  void on_stop(Instant now);
  /// What all launchers hold for the cause.
  void on_verdict(const GroupFailure& verdict, Instant now);
  void on_time(Instant now);

  [[nodiscard]] std::vector<Action> take_actions();
  /// The first failure of a rank of ours, to be told to the others. Fixed once it is there.
  [[nodiscard]] const std::optional<GroupFailure>& own_failure() const { return own_failure_; }
  [[nodiscard]] bool have_all_ended() const;
  /// The rank makes no step any more, or the group's are of no use.
  [[nodiscard]] bool is_training_over(std::int64_t local_rank) const;
  /// How this launcher ends: known when all its ranks have ended, and, unless they ended as meant, the verdict is
  /// there.
  [[nodiscard]] std::optional<rank::RankEnd> end() const;
  /// The rank that speaks in the end's message, its last report, and the earliest deadline ahead.
  [[nodiscard]] std::int64_t speaker() const;
  [[nodiscard]] const std::optional<rank::RankProgress>& progress(std::int64_t local_rank) const;

 private:
  struct Rank {
    std::optional<Instant> alive;  ///< Last message of any kind.
    std::optional<Instant> beat;   ///< Last sign of progress.
    std::optional<rank::RankProgress> progress;
    std::optional<rank::RankEnd> said;
    std::optional<Death> death;
    bool has_ended_as_meant = false;
  };

  /// True for a rank that ended with exit code 0 before its training was complete: the others would wait for it.
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
  bool is_stop_urgent_ = false;  ///< It was asked for twice.
  bool has_grace_ended_ = false;
  std::optional<Instant> lost_a_peer_;  ///< When a rank of ours first ended by peer_lost.
  std::optional<GroupFailure> own_failure_;
  std::optional<GroupFailure> verdict_;
  std::optional<Instant> kill_at_;
};

}  // namespace trainyard::launcher
