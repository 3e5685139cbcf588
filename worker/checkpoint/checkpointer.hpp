#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/training_spec.hpp"
#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/entry.hpp"
#include "checkpoint/group/communicator.hpp"
#include "checkpoint/run/restore.hpp"
#include "checkpoint/run/run.hpp"
#include "checkpoint/run/save_thread.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/dist/device_memory.hpp"

namespace trainyard::checkpoint {

/// The rows of a sharded entry that a rank's tensor holds: from `row_begin` on, of `row_count` rows on all ranks
/// together.
struct Shard {
  std::int64_t row_begin = 0;
  std::int64_t row_count = 0;
  bool is_of_scalar =
      false;  ///< The entry is a scalar, of one row; the tensor has one dimension, with one row or none.
};

struct Entry {
  std::string name;  ///< Unique: "model.conv1.weight", "optimizer.exp_avg.conv1.weight", "rng.cpu"
  Placement placement = Placement::replicated;
  torch::Tensor tensor;  ///< Any dtype and device; restore() copies into it in place. Opaque bytes are a uint8 tensor.
  bool must_be_finite = false;   ///< True: an infinity or a NaN in it makes the state unsound.
  std::optional<Shard> shard{};  ///< For a sharded entry. Nothing: the tensor has all rows.
  bool is_steady = false;        ///< Only the optimizer's step changes it, so it may be staged until the next one.
};

/// All that training needs to resume exactly: tensors, and small values (step, epoch, position, metrics), which are
/// equal on all ranks.
struct State {
  std::vector<Entry> entries;
  nlohmann::json values = nlohmann::json::object();
};

struct SaveOptions {
  bool is_copies_only = false;  ///< Write only the copies on the nodes, if the spec has a local tier.
  bool is_final = false;        ///< The training has reached its end: the state is saved even if it is not sound.
  bool is_sound = true;         ///< False: this rank knows that the state is not sound, because its loss is not finite.
  /// False: no step was made yet, so that nobody knows how much of a device's memory the steps need.
  bool may_copy_on_device = true;
};

/// Saves and restores one run's state under one prefix. The training thread makes all calls. A call is collective (all
/// ranks make it alike) unless it says otherwise. The destructor waits for the save under way; if the group is broken,
/// the rank ends by RankLink::exit instead.
class Checkpointer {
 public:
  virtual ~Checkpointer() = default;

  /// Loads the best candidate into `state`'s tensors, else a checkpoint of the spec's `resume_uri`, and claims the
  /// generation. Damaged candidates are skipped. Nothing: there was no checkpoint, and the tensors are unchanged. After
  /// an error the tensors must not be used. Takes host memory only for tensors that are on a device or not contiguous.
  /// ErrorKind::conflict: a newer attempt of this job has begun (`fenced`). invalid: the prefix belongs to another job
  /// that has not ended, or the state to another model or training set. cancelled: the ranks have lost each other. Else
  /// the storage's errors.
  [[nodiscard]] virtual Result<std::optional<Restored>> restore(State& state) = 0;

  /// The generation that restore() has claimed. Keys of other objects of the run contain it. Not collective.
  [[nodiscard]] virtual std::int64_t generation() const = 0;

  /// Stages what this rank writes of `state`, except steady entries, and returns. A thread stages the steady entries,
  /// which must not change before finish_staging(), and writes the checkpoint (docs/design-checkpoints.md, "How does
  /// training go on while a checkpoint is written?"). Needs restore() before, and the outcome of the save before. Sends
  /// no messages before it returns; errors are in the outcome.
  ///
  /// A state that is not sound on some rank is left out, unless it is final. A state whose steady entries changed while
  /// they were staged is left out always. A second save of one step writes only `values` and `is_final`.
  virtual void begin_save(const State& state, std::int64_t step, const SaveOptions& options) = 0;
  /// Returns once the state of the last begun save is staged: the state may then change. Not collective.
  virtual void finish_staging() = 0;
  /// True while the last begun save is under way on this rank. Other ranks may finish earlier or later. Not collective.
  [[nodiscard]] virtual bool is_saving() const = 0;
  /// The storage's last error while this rank's save retries; empty otherwise. Not collective.
  [[nodiscard]] virtual std::string trouble() const = 0;
  /// Waits up to `timeout` for the save under way. Returns the outcome of a save that has ended, once; it is equal on
  /// every rank. Success: the manifest is in the store, and a thread removes older checkpoints. Not collective.
  /// Errors: conflict when a newer run of the job has claimed (the worker exits `fenced`), invalid when another job
  /// has, cancelled when the ranks have lost each other. After an error of the storage another save may begin.
  [[nodiscard]] virtual std::optional<SaveOutcome> take_outcome(std::chrono::milliseconds timeout = {}) = 0;

  /// Puts the end of this run's generation, so that another job may claim the next. After a final save it waits up to
  /// 20 s for the removal of older checkpoints, but only until `is_stop_asked` returns true; otherwise it gives that
  /// up. Call it with no save under way, and after it only remove_copies(). Not collective: only rank 0 puts the end,
  /// and only after restore() has succeeded.
  [[nodiscard]] virtual Result<void> end(const std::function<bool()>& is_stop_asked) = 0;

  /// Removes the copies on this rank's node. Call it when the job has succeeded. Not collective.
  virtual void remove_copies() = 0;
};

/// The store at `spec`'s URI, for objects beside the checkpoints.
[[nodiscard]] Result<std::unique_ptr<storage::Store>> open_place(const api::CheckpointSpec& spec);

/// How a rank starts.
struct StartOptions {
  std::string node;  ///< The name of the rank's node. The first rank of a node checks the storage for the others.
  StartPatience patience{};
  /// Tells the memory of devices, and outlives the checkpointer. nullptr: no state is copied on its device.
  dist::DeviceMemoryGauge* device_memory = nullptr;
};

/// Collective. Checks the store's place and credentials on rank 0, and on every rank if the store is near. If one of
/// these checks fails, all ranks check, to tell a node's failure from the job's. The checkpointer alone uses
/// `communicator` from here on, on a thread of its own. Errors: invalid (file:// that cannot be), not_found (bucket),
/// unauthorized, forbidden.
[[nodiscard]] Result<std::unique_ptr<Checkpointer>> open_checkpointer(const api::CheckpointSpec& spec,
                                                                      const Identity& identity,
                                                                      Communicator& communicator, const Clock& clock,
                                                                      const StartOptions& options = {});

/// open_checkpointer() on an open store, for tests.
[[nodiscard]] Result<std::unique_ptr<Checkpointer>> open_checkpointer(std::unique_ptr<storage::Store> store,
                                                                      const api::CheckpointSpec& spec,
                                                                      const Identity& identity,
                                                                      Communicator& communicator, const Clock& clock,
                                                                      const StartOptions& options = {});

}  // namespace trainyard::checkpoint
