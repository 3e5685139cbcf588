#pragma once

#include <cstddef>
#include <memory>
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

/// Loads a model's tensors alone, from another place, for a training to begin with.

namespace trainyard::checkpoint {

/// A URI given by a person: it names a .safetensors file, or checkpoints.
struct WeightsPlace {
  std::string prefix_uri;
  std::string file;                ///< The safetensors file's key under the prefix; empty: checkpoints.
  std::optional<CheckpointId> id;  ///< This checkpoint, superseded or not. Nothing: the best candidate that is whole.
  /// The digest that the file must have, 64 hexadecimal digits in lower case. Empty: none.
  std::string sha256 = {};
  bool operator==(const WeightsPlace&) const = default;
};

/// Splits `uri` by its ending. open_store() checks the URI itself.
[[nodiscard]] WeightsPlace parse_weights_place(std::string_view uri);

struct LoadedWeights {
  std::string uri;                   ///< URI of the file or checkpoint that was loaded.
  std::vector<std::string> skipped;  ///< Newer candidates that were damaged, each with the reason.
};

/// Fills `entries`, all tensors of a model, from `place`, whose prefix `store` has opened. Checkpoints of any job and
/// any number of ranks will do. Names, types and shapes must be equal: ErrorKind::invalid lists the first five
/// differences. The file may also hold `aliases`, other names of the same tensors.
/// Claims and writes nothing, and reads each byte once. not_found: there is no checkpoint or file. corrupt: no
/// checkpoint is whole, or the file has another digest. After an error the contents of `entries` must not be used.
[[nodiscard]] Result<LoadedWeights> load_weights(storage::Store& store, const WeightsPlace& place,
                                                 std::span<const HostEntry> entries,
                                                 const std::set<std::string>& aliases = {});

/// load_weights() from the storage that `uri` names. `sha256`: see WeightsPlace.
[[nodiscard]] Result<LoadedWeights> load_weights(std::string_view uri, const storage::S3Options& s3,
                                                 std::span<const HostEntry> entries,
                                                 const std::set<std::string>& aliases = {}, std::string sha256 = {});

/// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  void add(std::span<const std::byte> piece);
  /// The digest: 64 hexadecimal digits in lower case. Call nothing after it.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::checkpoint
