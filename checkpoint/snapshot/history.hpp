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

/// What the snapshots under a prefix say together. What a run wrote beyond the step from which a later one went on does
/// not count, as with checkpoints.
namespace trainyard::snapshot {

/// How much of a snapshot counts.
enum class Standing {
  current,     ///< All of it.
  in_part,     ///< A later run went on from a step in the midst of what it tells: up to there.
  superseded,  ///< Nothing: a later run went on from a step before.
};

struct Listed {
  SnapshotId id;
  std::uint64_t bytes = 0;
  Standing standing = Standing::current;
  bool operator==(const Listed&) const = default;
};

/// By generation, then step: as they were written. Pure. `listed`: in any order; their standing is found here.
[[nodiscard]] std::vector<Listed> judge(std::vector<Listed> listed, std::span<const checkpoint::Claim> claims);

struct Shelf {
  std::vector<Listed> snapshots;  ///< As judge() gives them.
  std::vector<checkpoint::Claim> claims;
};

/// What is under the store's prefix; reads the claims, and no snapshot. Errors are the store's.
[[nodiscard]] Result<Shelf> list_snapshots(storage::Store& store);

/// The snapshot itself. ErrorKind::corrupt and invalid, with its URI, for one that cannot be read; the store's.
[[nodiscard]] Result<Snapshot> read_snapshot(storage::Store& store, const SnapshotId& id);

/// Gathers the points that count of any number of snapshots, in any order.
class History {
 public:
  struct RunPoint {
    Point point;
    std::int64_t generation = 0;
    bool operator==(const RunPoint&) const = default;
  };

  explicit History(std::span<const checkpoint::Claim> claims) : claims_(claims) {}

  /// A point that is there twice (a save whose reply was lost) is told once; of two generations' the later one counts.
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
