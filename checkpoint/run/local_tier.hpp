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

/// What is in the nodes' folders.
struct LocalView {
  CopiesByKeeper copies;
  std::vector<std::string> damaged;  ///< One sentence each, of what cannot be used.
};

/// What came of an attempt to load a candidate.
struct LocalLoad {
  std::optional<Manifest> manifest;   ///< Of what was loaded. Nothing: what the ranks hold is as it was.
  std::vector<std::int64_t> damaged;  ///< Else the keepers whose copies are no good.
  std::string reason;
};

/// Copies of the whole state on the nodes themselves: each is a checkpoint of the usual form, in a folder of its node,
/// written by the node's first rank, its keeper. Any one of them is enough. What goes wrong with one node's folder is
/// said in the outcome and stops nothing; errors are those of the group (cancelled) or the program (internal). One
/// thread at a time; "collective" calls are made by all ranks alike.
class LocalTier {
 public:
  /// Collective. `store`: this job's folder on this rank's node; `node`: that node's name; `keep`: how many complete
  /// copies stay.
  [[nodiscard]] static Result<LocalTier> join(Communicator& communicator, std::unique_ptr<storage::Store> store,
                                              std::string_view node, std::int64_t keep);

  /// Whether this rank writes its node's copies.
  [[nodiscard]] bool is_keeper() const { return keepers_[static_cast<std::size_t>(communicator_->rank())] == rank(); }

  /// Collective: what all nodes hold, on every rank.
  [[nodiscard]] Result<LocalView> list_copies() const;

  /// Collective: fills `entries` from the copies that `candidate` names. All bytes of a copy are verified before any
  /// rank's entries change. Where a node has none, one that has reads it for all. ErrorKind::io when a copy that was
  /// whole fails while it is loaded: what `entries` hold is not to be used then.
  [[nodiscard]] Result<LocalLoad> load(const Candidate& candidate, std::span<const HostEntry> entries) const;

  /// Removes this node's copies that can never count once `generation` has gone on from `resumed_from`. Failures are
  /// logged.
  void remove_superseded(std::int64_t generation, const std::optional<CheckpointId>& resumed_from) const;

  /// Collective: writes the checkpoint that `plan` describes but for its receipts to every node, and removes older
  /// ones. `entries`: this rank's; on keepers with all replicated bytes. Says what failed on which node, or is empty.
  [[nodiscard]] Result<std::string> save(const Manifest& plan, std::span<const HostEntry> entries) const;

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
  [[nodiscard]] Result<void> remove_older(const CheckpointId& newest) const;

  Communicator* communicator_;
  std::unique_ptr<storage::Store> store_;
  std::vector<std::int64_t> keepers_;  // By rank.
  std::int64_t keep_;
};

}  // namespace trainyard::checkpoint
