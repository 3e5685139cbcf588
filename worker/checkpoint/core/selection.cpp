#include "worker/checkpoint/core/selection.hpp"

#include <algorithm>
#include <set>

namespace trainyard::checkpoint {
namespace {

bool counts(const CheckpointId& id, std::span<const Claim> claims) {
  return std::all_of(claims.begin(), claims.end(), [&](const Claim& claim) {
    return claim.generation <= id.generation || (claim.resumed_from && id.step <= claim.resumed_from->step);
  });
}

std::set<std::int64_t> line_of(std::span<const Claim> claims, const Claim& newest) {
  std::set<std::int64_t> line = {newest.generation};
  std::vector<Claim> descending{claims.begin(), claims.end()};
  std::sort(descending.begin(), descending.end(),
            [](const Claim& a, const Claim& b) { return a.generation > b.generation; });
  if (newest.resumed_from) line.insert(newest.resumed_from->generation);
  for (const Claim& claim : descending) {
    const auto& uid = claim.identity.job_uid;
    if (!uid.empty() && uid == newest.identity.job_uid) line.insert(claim.generation);
    // A generation resumes from a lower one only, so the line is known when its turn comes.
    if (line.contains(claim.generation) && claim.resumed_from) line.insert(claim.resumed_from->generation);
  }
  return line;
}

}  // namespace

std::vector<CheckpointId> counting(std::span<const CheckpointId> complete, std::span<const Claim> claims) {
  std::vector<CheckpointId> found;
  std::copy_if(complete.begin(), complete.end(), std::back_inserter(found),
               [&](const CheckpointId& id) { return counts(id, claims); });
  std::sort(found.begin(), found.end(), std::greater<>{});
  return found;
}

std::vector<CheckpointId> expired(std::span<const CheckpointId> present, std::span<const CheckpointId> complete,
                                  std::span<const Claim> claims, const Claim& newest, const CheckpointId& saved,
                                  std::int64_t keep_count) {
  std::vector<CheckpointId> kept = counting(complete, claims);
  kept.resize(std::min(kept.size(), static_cast<std::size_t>(keep_count)));
  const std::set<std::int64_t> line = line_of(claims, newest);
  std::vector<CheckpointId> gone;
  std::copy_if(present.begin(), present.end(), std::back_inserter(gone), [&](const CheckpointId& id) {
    const bool is_kept = std::find(kept.begin(), kept.end(), id) != kept.end();
    return !is_kept && id != saved && line.contains(id.generation);
  });
  return gone;
}

}  // namespace trainyard::checkpoint
