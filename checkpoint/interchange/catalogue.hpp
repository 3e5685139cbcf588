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

/// How a restore treats a checkpoint.
enum class Standing {
  complete,    ///< A restore may take it.
  final,       ///< A restore may take it, and its training has reached the end: nothing is left to train.
  superseded,  ///< A later generation resumed from an earlier step: no restore takes it.
  unfinished,  ///< It has no manifest: it is being written, or its run died.
  damaged,     ///< A restore skips it: its manifest cannot be read, or a file is missing or of another size.
};

/// "complete", "final", "superseded", "unfinished" or "damaged".
[[nodiscard]] std::string_view to_string(Standing standing);

/// One checkpoint under the prefix.
struct Listed {
  CheckpointId id;
  Standing standing = Standing::unfinished;
  bool is_candidate = false;  ///< It has a manifest and is not superseded: a restore skips it only if it is damaged.
  std::uint64_t bytes = 0;    ///< The sizes of all its objects together.
  std::string job;            ///< The job in the manifest, else in the claim; empty: unknown.
  std::optional<Manifest> manifest;  ///< Nothing: it cannot be read.
  std::string reason;                ///< If it is damaged: why.
};

struct Catalogue {
  Inventory inventory;
  std::vector<Listed> checkpoints;  ///< In the order in which they were written: by generation, then step.

  /// The best candidate that is not damaged; nullptr: none.
  [[nodiscard]] const Listed* newest() const;
  [[nodiscard]] const Listed* find(const CheckpointId& id) const;
  /// The checkpoint of `step`: the best candidate that is not damaged, else the last that has a manifest, else the
  /// last; nullptr: none.
  [[nodiscard]] const Listed* of_step(std::int64_t step) const;
};

/// The checkpoint `id` with its standing. `manifest`: its manifest, or the error that reading the manifest gave. Uses
/// the functions of the worker's restore. Pure.
[[nodiscard]] Listed judge(const Inventory& inventory, const CheckpointId& id, Result<Manifest> manifest);

/// All checkpoints under the store's prefix. Reads every manifest. Errors are the store's.
[[nodiscard]] Result<Catalogue> read_catalogue(storage::Store& store);

}  // namespace trainyard::checkpoint
