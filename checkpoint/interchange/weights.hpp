#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/layout.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

/// A model's tensors alone, from elsewhere: what a training may begin with.
namespace trainyard::checkpoint {

/// What a URI of a person's names: a .safetensors file, or checkpoints.
struct WeightsPlace {
  std::string prefix_uri;
  std::string file;  ///< The safetensors file's key under the prefix; empty: checkpoints.
  std::optional<CheckpointId>
      id;  ///< This one, whether or not it counts. Nothing: the newest that counts and is whole.
  /// The file's digest, as 64 hexadecimal digits in lower case. Empty: any bytes will do.
  std::string sha256 = {};
  bool operator==(const WeightsPlace&) const = default;
};

/// `uri` taken apart, by its ending. Whether it is one at all is for open_store() to say.
[[nodiscard]] WeightsPlace parse_weights_place(std::string_view uri);

struct LoadedWeights {
  std::string uri;                   ///< Of the file, or of the checkpoint.
  std::vector<std::string> skipped;  ///< Newer checkpoints that were damaged, each with the reason.
};

/// Fills `entries`, all tensors of a model, from `place`, whose prefix `store` is open for. Any run's and any job's
/// will do, saved by any number of ranks, but names, types and shapes must be the same: ErrorKind::invalid lists the
/// first five that are not. What is in `aliases`, other names of the same tensors, may be there as well. Nothing is
/// claimed or written, and each byte is read once. not_found: there is none. corrupt: none is whole, or the file has
/// another digest. What `entries` hold after a failure is not to be used.
[[nodiscard]] Result<LoadedWeights> load_weights(storage::Store& store, const WeightsPlace& place,
                                                 std::span<const HostEntry> entries,
                                                 const std::set<std::string>& aliases = {});

/// As above, from the storage that `uri` names. `sha256`: as WeightsPlace's.
[[nodiscard]] Result<LoadedWeights> load_weights(std::string_view uri, const storage::S3Options& s3,
                                                 std::span<const HostEntry> entries,
                                                 const std::set<std::string>& aliases = {}, std::string sha256 = {});

}  // namespace trainyard::checkpoint
