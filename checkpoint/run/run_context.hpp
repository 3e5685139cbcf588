#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/data_file.hpp"
#include "checkpoint/format/layout.hpp"
#include "checkpoint/group/communicator.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "checkpoint/run/superseded.hpp"
#include "common/clock.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

class LocalTier;

/// Another place from which a run may begin. It is only read, and nothing is claimed there.
struct Origin {
  storage::Store& store;
  std::optional<CheckpointId> id;  ///< This checkpoint, superseded or not. Nothing: the best candidate there.
};

/// All that saving and restoring need. The references outlive it.
struct RunContext {
  storage::Store& store;
  Communicator& communicator;
  const Clock& clock;
  Identity identity;
  Keep keep;
  std::uint64_t chunk_bytes_max = shard_chunk_bytes_max;  ///< As write_share() takes it.
  bool resumes_others = true;  ///< False: only checkpoints of the same job_uid and fingerprint are candidates.

  std::optional<Origin> origin{};  ///< For a run that finds no candidate under its own prefix.
  LocalTier* local = nullptr;      ///< nullptr: no local tier.
  std::string process{};           ///< this_process() of a run that gives SignsOfLife. Empty for other runs.
  std::function<std::string()> make_nonce = &checkpoint::make_nonce;  ///< Gives each claim its nonce.

  StartPatience patience{};  ///< For how long a restore retries a storage that fails.
  /// True when this rank checks that it can read the claim: every rank where the store is a folder, since each pod may
  /// mount another folder; else the first rank of each node.
  bool is_first_here = true;

  [[nodiscard]] bool is_rank0() const { return communicator.rank() == 0; }
};

}  // namespace trainyard::checkpoint
