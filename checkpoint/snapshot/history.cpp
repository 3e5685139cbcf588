#include "checkpoint/snapshot/history.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/superseded.hpp"
#include "common/try.hpp"

namespace trainyard::snapshot {
namespace {

bool is_written_before(const Listed& a, const Listed& b) {
  return std::pair{a.id.generation, a.id.step} < std::pair{b.id.generation, b.id.step};
}

// `before`: the snapshot before it of the same generation; nullptr if it is the first.
Standing standing_of(const Listed& listed, const Listed* before, std::span<const checkpoint::Claim> claims) {
  const std::int64_t last = checkpoint::last_current_step(listed.id.generation, claims);
  if (listed.id.step <= last) return Standing::current;
  const bool is_all_beyond = last < 0 || (before != nullptr && before->id.step >= last);
  return is_all_beyond ? Standing::superseded : Standing::in_part;
}

}  // namespace

std::vector<Listed> judge(std::vector<Listed> listed, std::span<const checkpoint::Claim> claims) {
  std::sort(listed.begin(), listed.end(), is_written_before);
  const Listed* before = nullptr;
  for (Listed& each : listed) {
    const bool is_first = before == nullptr || before->id.generation != each.id.generation;
    each.standing = standing_of(each, is_first ? nullptr : before, claims);
    before = &each;
  }
  return listed;
}

Result<Shelf> list_snapshots(storage::Store& store) {
  const auto objects = TRY(store.list(checkpoint::snapshots_prefix));
  std::vector<Listed> listed;
  for (const storage::ObjectInfo& object : objects) {
    const auto id = checkpoint::parse_snapshot_key(object.key);
    if (id) listed.push_back({.id = *id, .bytes = object.bytes});
  }
  // The claims come second, so that every claim made during the listing is seen.
  return checkpoint::list_claims(store).map([&](std::vector<checkpoint::Claim> claims) {
    std::vector<Listed> judged = judge(std::move(listed), claims);
    return Shelf{.snapshots = std::move(judged), .claims = std::move(claims)};
  });
}

Result<Snapshot> read_snapshot(storage::Store& store, const SnapshotId& id) {
  const std::string key = checkpoint::snapshot_key(id);
  const auto text = TRY(storage::get_text(store, key));
  auto snapshot = parse_snapshot(text);
  if (!snapshot) return fail(store.uri_of(key), snapshot.error());
  if (snapshot->id != id) return fail(ErrorKind::corrupt, store.uri_of(key) + ": it is another snapshot");
  return snapshot;
}

void History::add(const Snapshot& snapshot) {
  const std::int64_t generation = snapshot.id.generation;
  const std::int64_t last = checkpoint::last_current_step(generation, claims_);
  for (const Point& point : snapshot.points) {
    if (point.step > last) continue;
    Value& value = values_[{point.step, point.name, point.over}];
    if (generation >= value.generation) value = {.generation = generation, .value = point.value};
  }
}

std::vector<History::RunPoint> History::points() const {
  std::vector<RunPoint> points;
  points.reserve(values_.size());
  for (const auto& [key, value] : values_) {
    const auto& [step, name, over] = key;
    points.push_back(
        {.point = {.name = name, .over = over, .step = step, .value = value.value}, .generation = value.generation});
  }
  return points;
}

}  // namespace trainyard::snapshot
