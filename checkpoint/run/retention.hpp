#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/layout.hpp"
#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/keep.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Removes the checkpoints that a run's newer ones have made superfluous. One thread calls tidy_up(); another one may
/// call note_saved() meanwhile. The store and the clock outlive it.
class Retention {
 public:
  Retention(storage::Store& store, const Clock& clock, const Keep& keep) : store_(store), clock_(clock), keep_(keep) {}

  /// Before any other call. `claims`: all of the prefix's with `ours`; `resumed_from`: what the run went on from, if
  /// that lies under the prefix.
  void begin(const Claim& ours, std::vector<Claim> claims, const std::optional<CheckpointId>& resumed_from);

  /// Notes that the checkpoint `saved` was reported as saved.
  void note_saved(const CheckpointId& saved, const Facts& facts);

  /// Removes what the checkpoints noted so far have made superfluous, and once per run what killed runs left half
  /// written: nothing where none was noted since the last call. All manifests go before any data file, so that a
  /// removal that ends anywhere leaves no manifest without its files. Gives up soon after `stop` is requested, and
  /// removes nothing once a later run has claimed the prefix; failures are logged, and what is left goes with the next
  /// call after a save.
  void tidy_up(const std::stop_token& stop);

 private:
  [[nodiscard]] std::optional<CheckpointId> take_notes();
  [[nodiscard]] Result<void> remove_expired(const CheckpointId& saved, const std::stop_token& stop);
  void learn_facts(std::span<const CheckpointId> complete, const std::stop_token& stop);
  [[nodiscard]] Result<void> remove_unfinished();

  storage::Store& store_;
  const Clock& clock_;
  const Keep keep_;
  Claim ours_;
  std::vector<Claim> claims_;
  std::map<CheckpointId, Facts> facts_;  // Of complete checkpoints.
  std::set<CheckpointId> complete_;      // Saved by this run or resumed from, and not removed: lists may lag behind.
  bool has_removed_unfinished_ = false;

  std::mutex mutex_;                     // guards all below
  std::map<CheckpointId, Facts> notes_;  // Saved since tidy_up() took the notes last.
  std::optional<CheckpointId> newest_;   // The last that was saved, since then.
};

}  // namespace trainyard::checkpoint
