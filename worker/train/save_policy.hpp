#pragma once

#include <cstdint>
#include <optional>

#include "api/training_spec.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"

/// Decides about checkpoints after a step. Pure: all ranks have equal inputs and decide alike.
namespace trainyard::train {

struct SaveSituation {
  bool is_due = false;
  bool is_copy_due = false;  ///< A copy on the nodes is due.
  bool is_asked = false;     ///< A request for a checkpoint is pending.
  bool is_stop_asked = false;
  bool is_saving = false;         ///< A save was still running on some rank when the step began.
  bool is_saving_copies = false;  ///< That save makes only copies on the nodes.
  api::WhenBusy when_busy = api::WhenBusy::skip;
};

enum class SaveAction {
  none,
  begin,           ///< Training goes on while the checkpoint is written.
  begin_copies,    ///< As begin, but makes only copies on the nodes.
  postpone,        ///< Begins after the first step at which no copies are being written.
  skip,            ///< No checkpoint: the previous one is still being written.
  wait_and_begin,  ///< Waits until the previous checkpoint is written, then begins.
  save_and_wait,   ///< Saves the last checkpoint of this attempt, after the previous one, and waits for it.
};

[[nodiscard]] SaveAction choose_save(const SaveSituation& situation);

/// Decides when to save again after an outage of the storage: after a growing pause when the last save failed, and at
/// once when it succeeded so late that other saves were skipped. By rank 0's clock. Pure.
class OwedSave {
 public:
  void failed(Instant now);
  void held_up() { is_held_up_ = true; }
  void begun();
  void saved() { failures_ = 0; }

  [[nodiscard]] bool is_due(Instant now) const { return is_held_up_ || (next_try_ && now >= *next_try_); }

 private:
  std::int64_t failures_ = 0;  // Failed saves since the last one that succeeded.
  std::optional<Instant> next_try_;
  bool is_held_up_ = false;
};

/// True when training goes on after a save that failed with `kind`, because the storage may recover: it is unreachable,
/// full, or refuses. False when this run must end: another run has taken over, or the group is broken.
[[nodiscard]] bool may_go_on(ErrorKind kind);

}  // namespace trainyard::train
