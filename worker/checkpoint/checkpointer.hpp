#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/training_spec.hpp"
#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/identity.hpp"
#include "checkpoint/group/communicator.hpp"
#include "checkpoint/run/restore.hpp"
#include "checkpoint/run/run.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "checkpoint/run/writer.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Which rows of a sharded entry a rank's tensor is: as many as it has, from `row_begin` on, of all ranks' `row_count`.
struct Shard {
  std::int64_t row_begin = 0;
  std::int64_t row_count = 0;
};

struct Entry {
  std::string name;  ///< Unique: "model.conv1.weight", "optimizer.exp_avg.conv1.weight", "rng.cpu"
  Placement placement = Placement::replicated;
  torch::Tensor tensor;  ///< Any dtype and device; restore copies into it in place. Opaque bytes are a uint8 tensor.
  bool must_be_finite = false;   ///< A number in it that is not finite makes the state unsound.
  std::optional<Shard> shard{};  ///< Of a sharded entry. Nothing: the tensor is all of it.
  bool is_steady = false;        ///< Only the optimizer's step changes it, so that it may be copied until the next one.
};

/// All that training needs to go on exactly: tensors, and small values (step, epoch, position, metrics), which are
/// replicated.
struct State {
  std::vector<Entry> entries;
  nlohmann::json values = nlohmann::json::object();
};

struct SaveOptions {
  bool is_copies_only = false;  ///< Only the nodes get it, where the spec has a local tier.
  bool is_final = false;        ///< The run ends with this state: it is saved as it is.
  bool is_sound = true;         ///< What this rank knows of that besides the entries: its loss is finite.
};

/// Saves and restores one run's state under one prefix. All calls are from the training thread; every one but
/// generation(), finish_staging(), is_saving(), trouble(), take_outcome() and end() is made by all ranks alike. Errors
/// of open_checkpointer(): invalid (file:// that cannot be), not_found (bucket), unauthorized, forbidden. Destruction
/// waits for the save under way: where the group is broken the rank ends by RankLink::exit instead.
class Checkpointer {
 public:
  virtual ~Checkpointer() = default;

  /// Loads the newest checkpoint that counts into `state`'s tensors, else that of the spec's `resume_uri`, or
  /// says that there is none; the tensors stay as they are then, and are not to be used after an error. The generation
  /// is claimed here, after the choice, so that the claim records what was resumed from. A checkpoint that is torn or
  /// tampered with is skipped for the one before. Needs host memory beside the state only for what lies on a device or
  /// not contiguously. ErrorKind::conflict when a newer attempt of this job has begun already (`fenced`), invalid when
  /// the prefix is that of another job that has not ended, or of one with another model or data, cancelled when the
  /// ranks have lost each other.
  [[nodiscard]] virtual Result<std::optional<Restored>> restore(State& state) = 0;

  /// The generation that restore() has claimed: what else a run writes under its prefix is named after it. Not
  /// collective.
  [[nodiscard]] virtual std::int64_t generation() const = 0;

  /// Copies what this rank writes of `state`, but for steady entries, and returns; a thread of the checkpointer copies
  /// those, which must not change before finish_staging(), and writes the copy: first to the nodes where the spec has a
  /// local tier, unless the run is complete. Talks to no other rank and fails in the
  /// outcome only. Needs restore() before, and that the outcome of the save before was taken. A state that is not sound
  /// on some rank is left out, unless it is complete, and so is one whose steady entries were changed in place while
  /// they were copied. A second save of the same step records `values` and `is_final` only. Keeps host memory of the
  /// size of this rank's share of the state; the node's keeper of copies, of all of it; 16 MiB more, pinned, for what
  /// is on a device.
  virtual void begin_save(const State& state, std::int64_t step, const SaveOptions& options) = 0;
  /// Returns once all of the state of the save that was begun last is copied: it may change now. Not collective.
  virtual void finish_staging() = 0;
  /// Whether the save that was begun last is still under way here. Other ranks may be done earlier or later.
  [[nodiscard]] virtual bool is_saving() const = 0;
  /// The error for which the storage is tried again while a save is under way here; empty while all goes well.
  [[nodiscard]] virtual std::string trouble() const = 0;
  /// The outcome of the save that has ended, once; it is the same on every rank. One under way is waited for, no longer
  /// than `patience`. Success once the manifest is in the store; older checkpoints are removed after that, by a thread
  /// of its own. Errors: conflict when a newer generation of the same job has claimed the prefix (the worker exits
  /// `fenced`), invalid when another job has, cancelled when the ranks have lost each other, the storage's otherwise:
  /// after those another save may be begun.
  [[nodiscard]] virtual std::optional<SaveOutcome> take_outcome(std::chrono::milliseconds timeout = {}) = 0;

  /// Records that this run has ended in order, so that another job may go on from what it saved. After a save that was
  /// complete the removal of older checkpoints is waited for, 20 s at most; else it is given up. The last call but
  /// remove_copies(), with no save under way; not collective: rank 0's counts, and does nothing before restore() has
  /// succeeded.
  [[nodiscard]] virtual Result<void> end() = 0;

  /// Removes the copies on this rank's node, which nobody needs once the job has succeeded. Not collective.
  virtual void remove_copies() = 0;
};

/// The store of `spec`'s place, as open_checkpointer() opens it: for what lies beside the checkpoints.
[[nodiscard]] Result<std::unique_ptr<storage::Store>> open_place(const api::CheckpointSpec& spec);

/// Where a rank is, and how long its start bears with the storage.
struct StartOptions {
  std::string node;  ///< Its node's name: of the ranks with one name the first looks at the storage for the others.
  StartPatience patience{};
};

/// Collective. The store's credentials and place are tried here: by rank 0, by every rank where the store is near, and
/// by all once one of these has failed, so that what ails one node is told from what ails the job.
/// `communicator` is the checkpointer's alone from here on: it is used from a thread of its own.
[[nodiscard]] Result<std::unique_ptr<Checkpointer>> open_checkpointer(const api::CheckpointSpec& spec,
                                                                      const Identity& identity,
                                                                      Communicator& communicator, const Clock& clock,
                                                                      const StartOptions& options = {});

/// As above, on a store that is already open, for tests.
[[nodiscard]] Result<std::unique_ptr<Checkpointer>> open_checkpointer(std::unique_ptr<storage::Store> store,
                                                                      const api::CheckpointSpec& spec,
                                                                      const Identity& identity,
                                                                      Communicator& communicator, const Clock& clock,
                                                                      const StartOptions& options = {});

}  // namespace trainyard::checkpoint
