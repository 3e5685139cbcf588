#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/group/communicator.hpp"
#include "checkpoint/run/candidates.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// The keeper of each rank's node, in rank order. `names`: the name of each rank's node, in rank order. Pure.
[[nodiscard]] std::vector<std::int64_t> keepers_of(std::span<const std::string> names);

/// The copies in all nodes' folders.
struct LocalView {
  CopiesByKeeper copies;
  std::vector<std::string> damaged;  ///< One sentence for each copy or folder that cannot be used.
};

/// The outcome of loading a candidate.
struct LocalLoad {
  std::optional<Manifest> manifest;   ///< The loaded checkpoint's. Nothing: no rank's state has changed.
  std::vector<std::int64_t> damaged;  ///< If nothing was loaded: the keepers whose copies are damaged or do not fit.
  std::string reason;
};

/// The copies on the nodes. Each copy is a whole checkpoint, in the usual layout, in a folder of its node; the node's
/// keeper writes it. Any one copy is enough for a restore.
/// A failure of one node's folder is not an error: the call's outcome reports it, and training goes on. Errors are
/// cancelled (the group is broken) or internal. One thread at a time; all ranks make the collective calls in one order.
class LocalTier {
 public:
  /// Collective. `store`: this job's folder on this rank's node. `node`: the node's name. `keep`: how many complete
  /// copies stay on each node.
  [[nodiscard]] static Result<LocalTier> join(Communicator& communicator, std::unique_ptr<storage::Store> store,
                                              std::string_view node, std::int64_t keep);

  /// True when this rank is the keeper of its node.
  [[nodiscard]] bool is_keeper() const { return keepers_[static_cast<std::size_t>(communicator_->rank())] == rank(); }

  /// Collective: the copies of all nodes, on every rank.
  [[nodiscard]] Result<LocalView> list_copies() const;

  /// Collective: fills `entries` from the copies of `candidate`. All bytes of a copy are verified before any rank's
  /// entries change. If a node has no copy, one keeper reads for all ranks. ErrorKind::io when a verified copy then
  /// fails to load: the contents of `entries` must not be used.
  [[nodiscard]] Result<LocalLoad> load(const Candidate& candidate, std::span<const HostEntry> entries) const;

  /// Removes this node's copies that no run can resume once `generation` has resumed from `resumed_from`. Failures are
  /// logged.
  void remove_superseded(std::int64_t generation, const std::optional<CheckpointId>& resumed_from) const;

  /// Collective: writes the checkpoint of `manifest`, which has no receipts yet, to every node, and removes older
  /// copies. `entries`: this rank's; a keeper's hold all replicated bytes. Returns the first failure of a node, with
  /// the rank of its keeper; empty if every node has its copy.
  [[nodiscard]] Result<std::string> save(const Manifest& manifest, std::span<const HostEntry> entries) const;

  [[nodiscard]] std::string uri_of(const CheckpointId& id) const;

 private:
  LocalTier(Communicator& communicator, std::unique_ptr<storage::Store> store, std::vector<std::int64_t> keepers,
            std::int64_t keep);
  [[nodiscard]] std::int64_t rank() const { return communicator_->rank(); }
  [[nodiscard]] Result<void> check_copy(const Candidate& candidate, const Manifest& manifest) const;
  [[nodiscard]] Result<void> read_for_all(std::int64_t root, const Manifest& manifest,
                                          std::span<const HostEntry> entries) const;
  [[nodiscard]] Result<void> write(Manifest manifest, std::span<const HostEntry> entries,
                                   std::vector<std::string>& own) const;
  [[nodiscard]] Result<void> remove_older(const CheckpointId& next) const;

  Communicator* communicator_;
  std::unique_ptr<storage::Store> store_;
  std::vector<std::int64_t> keepers_;  // The keeper of each rank's node, by rank.
  std::int64_t keep_;
};

}  // namespace trainyard::checkpoint
