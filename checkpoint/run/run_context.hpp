#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/format/data_file.hpp"
#include "checkpoint/format/identity.hpp"
#include "checkpoint/format/layout.hpp"
#include "checkpoint/group/communicator.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/keep.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

class LocalTier;

/// Where a run may begin from: a place that is only read, and where nothing is claimed.
struct Origin {
  storage::Store& store;
  std::optional<CheckpointId> id;  ///< This one, whether or not it counts there. Nothing: the newest that counts.
};

/// What saving and restoring work with. The references outlive it.
struct RunContext {
  storage::Store& store;
  Communicator& communicator;
  const Clock& clock;
  Identity identity;
  Keep keep;
  std::uint64_t chunk_bytes_max = shard_chunk_bytes_max;  ///< As write_share() takes it.
  bool resumes_others = true;  ///< false: only what runs of the same job_uid and fingerprint saved is resumed.

  std::optional<Origin> origin{};  ///< For a run that finds nothing to go on from under its own prefix.
  LocalTier* local = nullptr;      ///< Copies on the nodes. nullptr: none.
  std::string process{};           ///< this_process(), of a run that gives SignsOfLife. Empty: of one that does not.
  std::function<std::string()> make_nonce = &checkpoint::make_nonce;  ///< Gives each claim its nonce.

  StartPatience patience{};  ///< For how long a storage that fails is retried while the run restores.
  /// True when no lower rank sees the store from the same place: this one looks for itself.
  bool is_first_here = true;

  [[nodiscard]] bool is_rank0() const { return communicator.rank() == 0; }
};

}  // namespace trainyard::checkpoint
