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
  std::vector<std::string> left_out;  ///< Tensors of the file that are no model's.
};

/// Writes `tensors` as a complete checkpoint of step 0 under the store's prefix, in the order of a run: a generation is
/// claimed, the data comes, then the manifest, and the generation has ended. `source` is told by the manifest's values.
/// Errors: already_exists where there are checkpoints, invalid where a job is at work, or began meanwhile, or for two
/// tensors of one name, conflict where another import came meanwhile; else as of the store. What one leaves that failed
/// before its manifest is no checkpoint, and in no way of the next one.
[[nodiscard]] Result<Imported> import_tensors(storage::Store& store, std::span<const ForeignTensor> tensors,
                                              const std::string& source, Time now);

}  // namespace trainyard::checkpoint
