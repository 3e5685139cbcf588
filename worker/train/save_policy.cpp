#include "worker/train/save_policy.hpp"

#include <chrono>

#include "common/backoff.hpp"

namespace trainyard::train {
namespace {

// Each try copies the state, and may write all of it before it fails, as on a full disk.
constexpr Backoff save_backoff{.initial = std::chrono::seconds{5}, .max = std::chrono::seconds{30}};
// Without jitter: one rank decides.
constexpr double no_share = 0.5;

}  // namespace

void OwedSave::failed(Instant now) {
  // A storage that has just failed is not tried again at once, even where other saves were left out meanwhile.
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
    // Copies are frequent and quick: one more would not be worth a wait.
    return situation.is_copy_due && !situation.is_saving ? SaveAction::begin_copies : SaveAction::none;
  }
  if (!situation.is_saving) return SaveAction::begin;
  // Who asks is not left out: there is a step after which none is being written.
  if (!situation.is_due) return SaveAction::none;
  if (situation.when_busy == api::WhenBusy::wait) return SaveAction::wait_and_begin;
  return situation.is_saving_copies ? SaveAction::postpone : SaveAction::skip;
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
