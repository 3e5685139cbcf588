#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/interchange/tensor_file.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

struct Imported {
  CheckpointId id;
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> left_out;  ///< Tensors of the file that are not the model's.
};

/// Writes `tensors` as a complete checkpoint of step 0 under the store's prefix, as a run does: claim, data file,
/// manifest, end. The manifest's values name `source`. A failure before the manifest leaves no checkpoint, and nothing
/// that hinders the next import.
/// Errors: already_exists where there are checkpoints, invalid for two tensors of one name or where a job writes,
/// conflict where another import claims meanwhile; else the store's.
[[nodiscard]] Result<Imported> import_tensors(storage::Store& store, std::span<const ForeignTensor> tensors,
                                              const std::string& source, Time now);

}  // namespace trainyard::checkpoint
