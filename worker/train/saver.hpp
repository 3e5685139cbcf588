#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.hpp"
#include "common/outage.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/train/checkpoint_requests.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/save_policy.hpp"

namespace trainyard::train {

/// What the log says of the copies of checkpoints on the nodes. Pure but for the log.
class CopiesLog {
 public:
  /// `is_rank0`: whether this rank writes the log lines.
  explicit CopiesLog(bool is_rank0) : is_rank0_{is_rank0} {}

  struct Times {
    Instant now;
    double seconds = 0.0;        ///< That the copies took.
    double stall_seconds = 0.0;  ///< That training waited for them.
  };

  void saved(std::int64_t step, const Times& times);
  /// Told at once, once a minute while it lasts, and when it is over.
  void failed(std::int64_t step, const std::string& error, Instant now);

 private:
  bool is_rank0_;
  std::optional<Outage> outage_;  // Since the last that succeeded.
};

/// A rank's saves while it trains: begins them, and acts on what comes of them. All ranks' make the same calls after
/// the same steps, but for is_saving(). Used from the training thread.
class Saver {
 public:
  struct Options {
    checkpoint::SaveOptions save;
    bool must_succeed = false;  ///< The rank ends with this one: no later one would make up for its failure.
  };

  /// `is_rank0`: whether this rank writes the log lines. References outlive it.
  Saver(checkpoint::Checkpointer& checkpointer, const rank::RankLink& link, const Clock& clock, bool is_rank0)
      : checkpointer_{checkpointer},
        link_{link},
        clock_{clock},
        is_rank0_{is_rank0},
        requests_{link},
        copies_log_{is_rank0} {}

  /// Whether a save is still under way on this rank.
  [[nodiscard]] bool is_saving() const { return checkpointer_.is_saving(); }
  /// Whether the save that was begun last only makes copies on the nodes.
  [[nodiscard]] bool is_copies_only() const { return is_copies_only_; }

  /// Training goes on from `state`, which is there already.
  void resume_from(SavedState state) { resumed_ = std::move(state); }
  /// Has the state of `step` copied and written. Needs that poll_outcome() or wait() came since the save before.
  void begin(const checkpoint::State& state, std::int64_t step, const Options& options);
  /// Waits until it is copied. Before the optimizer's step.
  void finish_copy();
  /// Acts on the outcome of the last save. To be called when no rank is saving any more. True when there was an
  /// outcome; then the next save may be begun. If the storage failed, training goes on, another save is owed, and the
  /// failure is logged at once, once a minute while it lasts, and when it is over. An error ends the run.
  [[nodiscard]] OrEnd<bool> poll_outcome();
  /// Waits for the save under way, if there is one, as long as the group holds together; then acts on its outcome as
  /// poll_outcome() does. Calls `on_look` some times a second meanwhile.
  [[nodiscard]] OrEnd<void> wait(const std::function<void()>& on_look = [] {});
  /// Logs once, and keeps for error(), why the storage is being retried in the save under way. To be called after each
  /// step.
  void watch();
  /// Logs, once for each save under way, that the save of `step` is left out because of it.
  void skip(std::int64_t step);
  /// Training ends as planned after `step`. No save may be under way.
  void end(std::int64_t step, const rank::RankEnd& ended);

  /// The newest checkpoint of this attempt.
  [[nodiscard]] const std::optional<rank::SavedCheckpoint>& last() const { return last_; }
  /// Why the storage is being retried in the save under way, else why the last save failed; empty while all goes well.
  [[nodiscard]] const std::string& error() const { return trouble_.empty() ? error_ : trouble_; }
  /// True when an outage has cost a checkpoint and another save is to be begun now. To be asked on rank 0, which
  /// decides for all ranks.
  [[nodiscard]] bool is_owed() const { return !is_saving() && owed_.is_due(clock_.instant()); }
  /// The requests for checkpoints.
  [[nodiscard]] const CheckpointRequests& requests() const { return requests_; }

 private:
  [[nodiscard]] OrEnd<void> act_on(const checkpoint::SaveOutcome& outcome);
  void log_copies(const checkpoint::SaveOutcome& outcome);
  void note_failure(std::int64_t step, const Error& error);
  void note_success(std::int64_t step);

  checkpoint::Checkpointer& checkpointer_;
  const rank::RankLink& link_;
  const Clock& clock_;
  bool is_rank0_;
  bool must_succeed_ = false;
  bool is_copies_only_ = false;
  bool has_skipped_ = false;
  bool has_met_trouble_ = false;  // Whether the save that was begun last has met trouble.
  std::int64_t begun_step_ = 0;
  Instant::duration stall_{};  // What the training thread has paid for the save that was begun last.
  std::optional<rank::SavedCheckpoint> last_;
  std::string error_;
  std::string trouble_;
  OwedSave owed_;
  std::optional<SavedState> resumed_;
  std::optional<Outage> outage_;  // Saves that have failed since the last that succeeded.
  CheckpointRequests requests_;
  CopiesLog copies_log_;
};

}  // namespace trainyard::train
