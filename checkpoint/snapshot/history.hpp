#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/snapshot/snapshot.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

/// The snapshots under a prefix together. As with checkpoints, what a run wrote beyond the step from which a later run
/// resumed is superseded.
namespace trainyard::snapshot {

/// How much of a snapshot is current, that is, not superseded.
enum class Standing {
  current,     ///< All of it.
  in_part,     ///< The points up to the step from which a later run resumed.
  superseded,  ///< Nothing: a later run resumed from a step before it.
};

struct Listed {
  SnapshotId id;
  std::uint64_t bytes = 0;
  Standing standing = Standing::current;
  bool operator==(const Listed&) const = default;
};

/// `listed`, in any order, with the standing of each. Returned in the order in which they were written: by generation,
/// then step. Pure.
[[nodiscard]] std::vector<Listed> judge(std::vector<Listed> listed, std::span<const checkpoint::Claim> claims);

struct Shelf {
  std::vector<Listed> snapshots;  ///< In judge()'s order.
  std::vector<checkpoint::Claim> claims;
};

/// The snapshots under the store's prefix. Reads the claims, and no snapshot. Errors are the store's.
[[nodiscard]] Result<Shelf> list_snapshots(storage::Store& store);

/// Reads one snapshot. ErrorKind::corrupt or invalid, with its URI, for one that cannot be parsed; else the store's
/// errors.
[[nodiscard]] Result<Snapshot> read_snapshot(storage::Store& store, const SnapshotId& id);

/// Gathers the current points of any number of snapshots, given in any order.
class History {
 public:
  /// A point, and the generation of the run that wrote it.
  struct RunPoint {
    Point point;
    std::int64_t generation = 0;
    bool operator==(const RunPoint&) const = default;
  };

  explicit History(std::span<const checkpoint::Claim> claims) : claims_{claims} {}

  /// Adds the snapshot's current points. A point that is there twice (a save whose reply was lost) is kept once.
  /// Where two generations have the same point, the later generation's is kept.
  void add(const Snapshot& snapshot);
  /// By step, then name.
  [[nodiscard]] std::vector<RunPoint> points() const;

 private:
  struct Value {
    std::int64_t generation = 0;
    double value = 0.0;
  };

  std::span<const checkpoint::Claim> claims_;
  std::map<std::tuple<std::int64_t, std::string, Over>, Value> values_;
};

}  // namespace trainyard::snapshot
