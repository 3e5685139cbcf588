#include "worker/train/save_policy.hpp"

namespace trainyard::train {

SaveAction choose_save(const SaveSituation& situation) {
  if (situation.is_stop_asked) return SaveAction::save_and_wait;
  if (!situation.is_due && !situation.is_asked) {
    // Copies are frequent and quick: one more would not be worth a wait.
    return situation.is_copy_due && !situation.is_saving ? SaveAction::begin_copies : SaveAction::none;
  }
  if (!situation.is_saving) return SaveAction::begin;
  // Who asks is not left out: there is a step after which none is being written.
  if (!situation.is_due) return SaveAction::none;
  if (situation.when_busy == resource::WhenBusy::wait) return SaveAction::wait_and_begin;
  return situation.is_saving_copies ? SaveAction::postpone : SaveAction::leave_out;
}

bool may_go_on(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::not_found:  // The bucket: it was there when training began.
    case ErrorKind::gone:       // An upload in parts that somebody has ended.
    case ErrorKind::unauthorized:
    case ErrorKind::forbidden:
    case ErrorKind::throttled:
    case ErrorKind::unavailable:
    case ErrorKind::timeout:
    case ErrorKind::corrupt:  // On the way there.
    case ErrorKind::io:       // The disk or the quota is full.
      return true;
    default:
      return false;
  }
}

}  // namespace trainyard::train
