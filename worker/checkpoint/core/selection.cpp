#include "worker/checkpoint/core/selection.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace trainyard::checkpoint {
namespace {

constexpr std::int64_t keep_last_min = 2;

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

bool is_milestone(const CheckpointId& id, const Keep& keep, const Facts& facts) {
  return (keep.every_steps && id.step % *keep.every_steps == 0) ||
         (keep.every_epochs && facts.ended_epoch && *facts.ended_epoch % *keep.every_epochs == 0);
}

std::vector<CheckpointId> best_of(std::span<const CheckpointId> newest_first, const KeepBest& best,
                                  const std::map<CheckpointId, Facts>& facts) {
  std::vector<std::pair<double, CheckpointId>> ranked;
  for (const CheckpointId& id : newest_first) {
    const auto known = facts.find(id);
    if (known == facts.end()) continue;
    const auto metric = known->second.metrics.find(best.metric);
    if (metric == known->second.metrics.end()) continue;
    ranked.emplace_back(best.is_highest ? -metric->second : metric->second, id);
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(best.count)));
  std::vector<CheckpointId> found;
  for (const auto& [value, id] : ranked) found.push_back(id);
  return found;
}

std::set<CheckpointId> kept_of(std::span<const CheckpointId> newest_first, const Keep& keep,
                               const std::map<CheckpointId, Facts>& facts) {
  const auto last = static_cast<std::size_t>(std::max(keep.last, keep_last_min));
  std::set<CheckpointId> kept;
  for (std::size_t i = 0; i < newest_first.size(); ++i) {
    const CheckpointId& id = newest_first[i];
    const auto known = facts.find(id);
    const bool is_unknown = keep.needs_facts() && known == facts.end();
    if (i < last || is_unknown || is_milestone(id, keep, known == facts.end() ? Facts{} : known->second))
      kept.insert(id);
  }
  if (keep.best) {
    for (const CheckpointId& id : best_of(newest_first, *keep.best, facts)) kept.insert(id);
  }
  return kept;
}

}  // namespace

std::int64_t last_counting_step(std::int64_t generation, std::span<const Claim> claims) {
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (const Claim& claim : claims) {
    if (claim.is_open || claim.generation <= generation) continue;
    last = std::min(last, claim.resumed_from ? claim.resumed_from->step : -1);
  }
  return last;
}

std::vector<CheckpointId> counting(std::span<const CheckpointId> complete, std::span<const Claim> claims) {
  std::vector<CheckpointId> found;
  std::copy_if(complete.begin(), complete.end(), std::back_inserter(found),
               [&](const CheckpointId& id) { return id.step <= last_counting_step(id.generation, claims); });
  std::sort(found.begin(), found.end(), std::greater<>{});
  return found;
}

std::vector<CheckpointId> expired(std::span<const CheckpointId> present, std::span<const CheckpointId> complete,
                                  std::span<const Claim> claims, const Claim& newest, const CheckpointId& saved,
                                  const Keep& keep, const std::map<CheckpointId, Facts>& facts) {
  const std::set<CheckpointId> kept = kept_of(counting(complete, claims), keep, facts);
  const std::set<std::int64_t> line = line_of(claims, newest);
  std::vector<CheckpointId> gone;
  std::copy_if(present.begin(), present.end(), std::back_inserter(gone), [&](const CheckpointId& id) {
    return !kept.contains(id) && id != saved && line.contains(id.generation);
  });
  return gone;
}

}  // namespace trainyard::checkpoint
