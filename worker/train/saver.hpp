#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.hpp"
#include "common/outage.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/launcher/rank_link.hpp"
#include "worker/train/checkpoint_requests.hpp"
#include "worker/train/copies_log.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/save_policy.hpp"

namespace trainyard::train {

/// A rank's saves while it trains: begins them, and acts on what comes of them. All ranks' make the same calls after
/// the same steps, but for is_saving(). Used from the training thread.
class Saver {
 public:
  struct Options {
    checkpoint::SaveOptions save;
    bool must_succeed = false;  ///< The rank ends with this one: no later one would make up for its failure.
  };

  /// `speaks`: whether this rank writes the log lines. References outlive it.
  Saver(checkpoint::Checkpointer& checkpointer, const launcher::RankLink& link, const Clock& clock, bool speaks)
      : checkpointer_{checkpointer},
        link_{link},
        clock_{clock},
        speaks_{speaks},
        requests_{link},
        copies_log_{speaks} {}

  /// Whether a save is still under way on this rank.
  [[nodiscard]] bool is_saving() const { return checkpointer_.is_saving(); }
  /// Whether the save that was begun last only makes copies on the nodes.
  [[nodiscard]] bool is_copies_only() const { return is_copies_only_; }

  /// Training goes on from `state`, which is there already.
  void resume_from(SavedState state) { resumed_ = std::move(state); }
  /// Has the state of `step` copied and written. Needs that settle() or wait() came since the save before.
  void begin(const checkpoint::State& state, std::int64_t step, const Options& options);
  /// Waits until it is copied. Before the optimizer's step.
  void finish_copy();
  /// Acts on the outcome of a save that has ended, if there is one, and says whether there was. The next one may be
  /// begun then. A storage that fails is no end: training goes on, another save is owed, and the log says so at once,
  /// once a minute while it lasts, and when it is over. Once no rank is saving.
  [[nodiscard]] OrEnd<bool> settle();
  /// The same for one that may be under way, which is waited for as long as the group holds together. `on_look` is
  /// called some times a second.
  [[nodiscard]] OrEnd<void> wait(const std::function<void()>& on_look = [] {});
  /// Looks how the save under way gets on with the storage. After each step.
  void watch();
  /// Says, once for each save that is under way, that the one of `step` is left out for it.
  void leave_out(std::int64_t step);
  /// Training ends in order after `step`, with no save under way.
  void end(std::int64_t step, const launcher::RankEnd& ended);

  /// The newest of this attempt.
  [[nodiscard]] const std::optional<launcher::SavedCheckpoint>& last() const { return last_; }
  /// Why the last save failed, or why the storage is tried again in the one under way; empty while all goes well.
  [[nodiscard]] const std::string& error() const { return trouble_.empty() ? error_ : trouble_; }
  /// Whether an outage has cost a checkpoint that can be made up for now. On rank 0, whose answer is every rank's.
  [[nodiscard]] bool is_owed() const { return !is_saving() && owed_.is_due(clock_.instant()); }
  /// The checkpoints that somebody asks for.
  [[nodiscard]] const CheckpointRequests& requests() const { return requests_; }

 private:
  [[nodiscard]] OrEnd<void> act_on(const checkpoint::SaveOutcome& outcome);
  void tell_of_copies(const checkpoint::SaveOutcome& outcome);
  void note_failure(std::int64_t step, const Error& error);
  void note_success(std::int64_t step);

  checkpoint::Checkpointer& checkpointer_;
  const launcher::RankLink& link_;
  const Clock& clock_;
  bool speaks_;
  bool must_succeed_ = false;
  bool is_copies_only_ = false;
  bool has_left_out_ = false;
  bool has_met_trouble_ = false;  // The save that was begun last.
  std::int64_t begun_step_ = 0;
  Instant::duration stall_{};  // What the training thread has paid for the save that was begun last.
  std::optional<launcher::SavedCheckpoint> last_;
  std::string error_;
  std::string trouble_;
  OwedSave owed_;
  std::optional<SavedState> resumed_;
  std::optional<Outage> outage_;  // Saves that have failed since the last that succeeded.
  CheckpointRequests requests_;
  CopiesLog copies_log_;
};

}  // namespace trainyard::train
