#include "worker/train/save_policy.hpp"

#include <chrono>

#include "common/backoff.hpp"

namespace trainyard::train {
namespace {

// A try is expensive: it copies the state, and may write all of it before it fails, as on a full disk.
constexpr Backoff save_backoff{.initial = std::chrono::seconds{5}, .max = std::chrono::seconds{30}};
// Without jitter, because only rank 0 decides.
constexpr double no_share = 0.5;

}  // namespace

void OwedSave::failed(Instant now) {
  // A storage that has just failed is not tried again at once, even if other saves were skipped meanwhile.
  is_held_up_ = false;
  next_try_ = now + backoff_delay(save_backoff, ++failures_, no_share);
}

void OwedSave::begun() {
  next_try_.reset();
  is_held_up_ = false;
}

SaveAction choose_save(const SaveSituation& situation) {
  if (situation.is_stop_asked) return SaveAction::save_and_wait;
  if (!situation.is_due && !situation.is_asked) {
    // Copies are frequent and quick: a missed copy is not worth a wait.
    return situation.is_copy_due && !situation.is_saving ? SaveAction::begin_copies : SaveAction::none;
  }
  if (!situation.is_saving) return SaveAction::begin;
  // A request is not skipped: the save begins after a later step, when the running one has ended.
  if (!situation.is_due) return SaveAction::none;
  if (situation.when_busy == api::WhenBusy::wait) return SaveAction::wait_and_begin;
  return situation.is_saving_copies ? SaveAction::postpone : SaveAction::skip;
}

bool may_go_on(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::not_found:  // The bucket existed when training began, and may come back.
    case ErrorKind::gone:       // An upload in parts that was aborted.
    case ErrorKind::unauthorized:
    case ErrorKind::forbidden:
    case ErrorKind::throttled:
    case ErrorKind::unavailable:
    case ErrorKind::timeout:
    case ErrorKind::corrupt:  // Damaged on the way to the storage.
    case ErrorKind::io:       // The disk or the quota is full.
      return true;
    default:
      return false;
  }
}

}  // namespace trainyard::train
