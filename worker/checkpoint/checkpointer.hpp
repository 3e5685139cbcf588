#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/resource/training_spec.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/core/entry.hpp"
#include "worker/checkpoint/core/identity.hpp"
#include "worker/checkpoint/core/restore.hpp"
#include "worker/checkpoint/core/run.hpp"
#include "worker/dist/communicator.hpp"

namespace trainyard::checkpoint {

struct Entry {
  std::string name;  ///< Unique: "model.conv1.weight", "optimizer.exp_avg.conv1.weight", "rng.cpu"
  Placement placement = Placement::replicated;
  torch::Tensor tensor;  ///< Any dtype and device; restore copies into it in place. Opaque bytes are a uint8 tensor.
};

/// All that training needs to go on exactly: tensors, and small values (step, epoch, position, metrics), which are
/// replicated.
struct State {
  std::vector<Entry> entries;
  nlohmann::json values = nlohmann::json::object();
};

/// Saves and restores one run's state under one prefix. Every call but end() is collective over the communicator's
/// ranks; all are from the training thread. Errors of open(): invalid (file:// that cannot be), not_found (bucket),
/// unauthorized, forbidden. Errors of save(): conflict when a newer generation of the same job has
/// claimed the prefix (the worker exits `fenced`), the storage's otherwise.
class Checkpointer {
 public:
  virtual ~Checkpointer() = default;

  /// Loads the newest checkpoint that counts into `state`'s tensors, or says that there is none; the tensors stay as
  /// they are then. The generation is claimed here, after the choice, so that the claim records what was resumed from.
  /// A checkpoint that is torn or tampered with is skipped for the one before. Needs as much host memory again as the
  /// state takes. ErrorKind::conflict when a newer attempt of this job has begun already (`fenced`), invalid when the
  /// prefix is that of another job that has not ended, or of one with another model or data.
  [[nodiscard]] virtual Result<std::optional<Restored>> restore(State& state) = 0;
  /// Needs restore() before. `is_complete`: the run ends with this one. Returns once the manifest is in the store. A
  /// second save of the same step records `values` and `is_complete` only.
  [[nodiscard]] virtual Result<Saved> save(const State& state, std::int64_t step, bool is_complete) = 0;
  /// Records that this run has ended in order, so that another job may go on from what it saved. The last call; not
  /// collective: rank 0's counts, and does nothing before restore() has succeeded.
  [[nodiscard]] virtual Result<void> end() = 0;
};

/// Collective. The store's credentials and place are tried here, so that what is wrong with them shows within seconds.
[[nodiscard]] Result<std::unique_ptr<Checkpointer>> open_checkpointer(const resource::CheckpointSpec& spec,
                                                                      const Identity& identity,
                                                                      dist::Communicator& communicator,
                                                                      const Clock& clock);

/// The same on a store that is already open, for tests.
[[nodiscard]] Result<std::unique_ptr<Checkpointer>> open_checkpointer(std::unique_ptr<storage::Store> store,
                                                                      const resource::CheckpointSpec& spec,
                                                                      const Identity& identity,
                                                                      dist::Communicator& communicator,
                                                                      const Clock& clock);

}  // namespace trainyard::checkpoint
