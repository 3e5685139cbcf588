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

/// Logs the copies of checkpoints on the nodes.
class CopiesLog {
 public:
  /// Only rank 0 writes the log lines.
  explicit CopiesLog(bool is_rank0) : is_rank0_{is_rank0} {}

  struct Times {
    Instant now;
    double seconds = 0.0;        ///< Duration of the save.
    double stall_seconds = 0.0;  ///< How long training waited for it.
  };

  void saved(std::int64_t step, const Times& times);
  /// Logs an outage at once, once a minute while it lasts, and, by saved(), when it is over.
  void failed(std::int64_t step, const std::string& error, Instant now);

 private:
  bool is_rank0_;
  std::optional<Outage> outage_;  // Failures since the last copy that succeeded.
};

/// A rank's saves while it trains: begins them and handles their outcomes. All ranks make the same calls after the same
/// steps, except is_saving(). Used from the training thread.
class Saver {
 public:
  struct Options {
    checkpoint::SaveOptions save;
    bool must_succeed = false;  ///< The rank ends after this save: a failure could not be made up for.
  };

  /// Only rank 0 writes the log lines. The references outlive the saver.
  Saver(checkpoint::Checkpointer& checkpointer, const rank::RankLink& link, const Clock& clock, bool is_rank0)
      : checkpointer_{checkpointer},
        link_{link},
        clock_{clock},
        is_rank0_{is_rank0},
        requests_{link},
        copies_log_{is_rank0} {}

  /// True while a save runs on this rank.
  [[nodiscard]] bool is_saving() const { return checkpointer_.is_saving(); }
  /// True when the last save that was begun makes only copies on the nodes.
  [[nodiscard]] bool is_copies_only() const { return is_copies_only_; }

  /// Notes that training resumes from `state`, which is saved already.
  void resume_from(SavedState state) { resumed_ = std::move(state); }
  /// Begins to copy and write the state of `step`. poll_outcome() or wait() must have handled the previous save.
  void begin(const checkpoint::State& state, std::int64_t step, const Options& options);
  /// Waits until the state is copied. To be called before the optimizer's step.
  void finish_staging();
  /// Handles the outcome of a finished save; false when there was none. A storage failure is logged, another save is
  /// owed, and training goes on. An error ends the run. To be called only while no rank is saving.
  [[nodiscard]] OrEnd<bool> poll_outcome();
  /// Waits for the running save, if there is one, and handles its outcome as poll_outcome() does. Gives up when the
  /// group breaks. Calls `on_look` several times a second meanwhile.
  [[nodiscard]] OrEnd<void> wait(const std::function<void()>& on_look = [] {});
  /// Logs once, and keeps for error(), why the running save retries the storage. To be called after each step.
  void watch();
  /// Logs that the checkpoint of `step` is skipped because a save is running; once for each running save.
  void skip(std::int64_t step);
  /// Answers a pending request because training ends after `step`. No save may be running.
  void end(std::int64_t step, const rank::RankEnd& ended);

  /// The newest checkpoint of this attempt.
  [[nodiscard]] const std::optional<rank::SavedCheckpoint>& last() const { return last_; }
  /// Why the running save retries the storage, else why the last save failed; empty without a failure.
  [[nodiscard]] const std::string& error() const { return trouble_.empty() ? error_ : trouble_; }
  /// True when an outage has cost a checkpoint and a save should begin now. Only rank 0's answer is used.
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
  bool has_met_trouble_ = false;  // The last save that was begun has retried the storage.
  std::int64_t begun_step_ = 0;
  Instant::duration stall_{};  // How long the training thread has waited for the last save that was begun.
  std::optional<rank::SavedCheckpoint> last_;
  std::string error_;
  std::string trouble_;
  OwedSave owed_;
  std::optional<SavedState> resumed_;
  std::optional<Outage> outage_;  // Failed saves since the last one that succeeded.
  CheckpointRequests requests_;
  CopiesLog copies_log_;
};

}  // namespace trainyard::train
