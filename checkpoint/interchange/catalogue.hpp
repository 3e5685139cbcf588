#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// What a restore makes of a checkpoint.
enum class Standing {
  complete,    ///< A restore may pick it.
  final,       ///< Complete, and its run ended with it: there is nothing left to train.
  superseded,  ///< Does not count: a later generation went on from an earlier step.
  unfinished,  ///< Without a manifest: being written, or never finished.
  damaged,     ///< A restore skips it: its manifest cannot be read, or a file is missing or of another size.
};

/// As a person reads it: "complete", "final", "superseded", "unfinished", "damaged".
[[nodiscard]] std::string_view to_string(Standing standing);

/// One checkpoint under the prefix.
struct Listed {
  CheckpointId id;
  Standing standing = Standing::unfinished;
  bool is_candidate = false;         ///< A restore looks at it, and skips it only if it is damaged.
  std::uint64_t bytes = 0;           ///< Of all its objects.
  std::string job;                   ///< As the manifest, else the generation's claim, says; empty: unknown.
  std::optional<Manifest> manifest;  ///< Where it could be read.
  std::string reason;                ///< Why it is damaged.
};

struct Catalogue {
  Inventory inventory;
  std::vector<Listed> checkpoints;  ///< By generation, then step: as they were written.

  /// What a restore would pick; nullptr: nothing.
  [[nodiscard]] const Listed* newest() const;
  [[nodiscard]] const Listed* find(const CheckpointId& id) const;
  /// The one of `step` that counts, else the last one of that step that has a manifest, else the last; nullptr: none.
  [[nodiscard]] const Listed* of_step(std::int64_t step) const;
};

/// Where a checkpoint with this manifest stands, or with the error that reading it gave. Pure, and by the same
/// functions as the worker's restore.
[[nodiscard]] Listed judge(const Inventory& inventory, const CheckpointId& id, Result<Manifest> manifest);

/// All checkpoints under the store's prefix; reads every manifest. Errors are the store's.
[[nodiscard]] Result<Catalogue> read_catalogue(storage::Store& store);

}  // namespace trainyard::checkpoint
