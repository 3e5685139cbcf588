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
#include "checkpoint/run/superseded.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Removes old checkpoints. One thread calls tidy_up(); another may call note_saved() meanwhile. The store and the
/// clock outlive it.
class Retention {
 public:
  Retention(storage::Store& store, const Clock& clock, const Keep& keep) : store_{store}, clock_{clock}, keep_{keep} {}

  /// Call it first. `claims`: all claims under the prefix, with `ours`. `resumed_from`: the checkpoint that the run
  /// resumed from, if it lies under the prefix.
  void begin(const Claim& ours, std::vector<Claim> claims, const std::optional<CheckpointId>& resumed_from);

  /// Notes that the checkpoint `saved` has been reported.
  void note_saved(const CheckpointId& saved, const Facts& facts);

  /// Removes the checkpoints that the noted ones make superfluous and, once per run, what killed runs left unfinished.
  /// Does nothing if nothing was noted since the last call, or if a later run has claimed the prefix. All manifests go
  /// before any data file, so that an interrupted removal leaves no manifest without its files. Returns soon after
  /// `stop` is requested. Failures are logged, and retried by the next call that follows a save.
  void tidy_up(const std::stop_token& stop);

 private:
  [[nodiscard]] std::optional<CheckpointId> take_notes();
  [[nodiscard]] Result<void> remove_expired(const CheckpointId& saved, const std::stop_token& stop);
  void learn_facts(std::span<const CheckpointId> complete, const std::stop_token& stop);
  [[nodiscard]] Result<void> remove_unfinished();

  friend struct RunMemory;  // Shows tests what a run remembers.

  storage::Store& store_;
  const Clock& clock_;
  const Keep keep_;
  Claim ours_;
  std::vector<Claim> claims_;
  std::map<CheckpointId, Facts> facts_;  // The facts of complete checkpoints.
  std::set<CheckpointId> complete_;      // Resumed from or saved by this run, and not removed, even if not listed yet.
  bool has_removed_unfinished_ = false;

  std::mutex mutex_;                     // guards all below
  std::map<CheckpointId, Facts> notes_;  // Saved since tidy_up() took the notes last.
  std::optional<CheckpointId> newest_;   // The last that was noted since then.
};

}  // namespace trainyard::checkpoint
