#pragma once

#include <cstdint>
#include <optional>

#include "api/training_spec.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"

/// What is done about checkpoints after a step. Pure: all ranks decide from the same, and so alike.
namespace trainyard::train {

struct SaveSituation {
  bool is_due = false;
  bool is_copy_due = false;  ///< On the nodes alone.
  bool is_asked = false;     ///< Somebody waits for one.
  bool is_stop_asked = false;
  bool is_saving = false;         ///< The save before was still under way on some rank when the step began.
  bool is_saving_copies = false;  ///< That save only makes copies on the nodes.
  api::WhenBusy when_busy = api::WhenBusy::skip;
};

enum class SaveAction {
  none,
  begin,           ///< Training goes on while it is written.
  begin_copies,    ///< As begin, but with copies on the nodes alone.
  postpone,        ///< It is begun after the first step at which no copies are being written.
  skip,            ///< The one before is still being written.
  wait_and_begin,  ///< Once the one before is written.
  save_and_wait,   ///< The last one of this attempt: after the one before, and training ends with it.
};

[[nodiscard]] SaveAction choose_save(const SaveSituation& situation);

/// When to save again after an outage of the storage: after a save that failed, once a growing pause is over; after a
/// save that was held up, so that others were left out, at once. By rank 0's clock. Pure.
class OwedSave {
 public:
  void failed(Instant now);
  void held_up() { is_held_up_ = true; }
  void begun();
  void saved() { failures_ = 0; }

  [[nodiscard]] bool is_due(Instant now) const { return is_held_up_ || (next_try_ && now >= *next_try_); }

 private:
  std::int64_t failures_ = 0;  // Since the last save that succeeded.
  std::optional<Instant> next_try_;
  bool is_held_up_ = false;
};

/// Whether training goes on after a save that failed with `kind`: the storage is away or full or refuses, which it may
/// not do for ever. Else this run must end: another one has taken over, or the ranks have lost each other.
[[nodiscard]] bool may_go_on(ErrorKind kind);

}  // namespace trainyard::train
