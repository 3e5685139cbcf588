#include "checkpoint/run/superseded.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace trainyard::checkpoint {
namespace {

constexpr std::int64_t keep_last_min = 2;

// The generations of one chain of runs by hand (of equal name and fingerprint), each of which resumed from the one
// before. Runs by hand that did not resume from each other may belong to different jobs.
std::set<std::int64_t> chain_of(std::span<const Claim> claims, const Claim& newest) {
  std::vector<Claim> descending{claims.begin(), claims.end()};
  std::sort(descending.begin(), descending.end(),
            [](const Claim& a, const Claim& b) { return a.generation > b.generation; });
  std::set<std::int64_t> chain = {newest.generation};
  if (newest.resumed_from) chain.insert(newest.resumed_from->generation);
  std::set<std::int64_t> own = {newest.generation};
  for (const Claim& claim : descending) {
    const bool is_alike = claim.identity.job_uid.empty() && is_same_job(claim.identity, newest.identity);
    // A generation resumes only from a lower one, so `chain` is complete for this one.
    if (!chain.contains(claim.generation) || !is_alike) continue;
    own.insert(claim.generation);
    if (claim.resumed_from) chain.insert(claim.resumed_from->generation);
  }
  return own;
}

std::set<std::int64_t> own_generations(std::span<const Claim> claims, const Claim& newest) {
  if (newest.identity.job_uid.empty()) return chain_of(claims, newest);
  std::set<std::int64_t> own = {newest.generation};
  for (const Claim& claim : claims) {
    if (is_same_life(claim.identity, newest.identity)) own.insert(claim.generation);
  }
  return own;
}

bool is_just_superseded(const CheckpointId& id, std::span<const Claim> claims, Time now) {
  return std::any_of(claims.begin(), claims.end(), [&](const Claim& claim) {
    const bool is_superseding = !claim.is_open && claim.generation > id.generation &&
                                id.step > (claim.resumed_from ? claim.resumed_from->step : -1);
    return is_superseding && now - claim.time < superseded_grace;
  });
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

Facts facts_of(const nlohmann::json& values) {
  Facts facts;
  if (!values.is_object()) return facts;
  const auto epoch = values.find("epoch");
  const auto samples = values.find("samples");
  const bool are_there = epoch != values.end() && samples != values.end();
  if (are_there && epoch->is_number_integer() && *samples == 0 && *epoch > 0)
    facts.ended_epoch = epoch->get<std::int64_t>();
  const auto metrics = values.find("metrics");
  if (metrics == values.end() || !metrics->is_object()) return facts;
  for (const auto& [name, value] : metrics->items()) {
    if (value.is_number()) facts.metrics[name] = value.get<double>();
  }
  return facts;
}

std::int64_t last_current_step(std::int64_t generation, std::span<const Claim> claims) {
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (const Claim& claim : claims) {
    if (claim.is_open || claim.generation <= generation) continue;
    last = std::min(last, claim.resumed_from ? claim.resumed_from->step : -1);
  }
  return last;
}

std::vector<CheckpointId> without_superseded(std::span<const CheckpointId> complete, std::span<const Claim> claims) {
  std::vector<CheckpointId> found;
  std::copy_if(complete.begin(), complete.end(), std::back_inserter(found),
               [&](const CheckpointId& id) { return id.step <= last_current_step(id.generation, claims); });
  std::sort(found.begin(), found.end(), std::greater<>{});
  return found;
}

std::vector<CheckpointId> expired(std::span<const CheckpointId> present, std::span<const CheckpointId> complete,
                                  std::span<const Claim> claims, const Claim& newest, const CheckpointId& saved,
                                  Time now, const Keep& keep, const std::map<CheckpointId, Facts>& facts) {
  const std::set<std::int64_t> own = own_generations(claims, newest);
  // Checkpoints of other jobs are not counted in `keep`.
  std::vector<CheckpointId> own_current = without_superseded(complete, claims);
  std::erase_if(own_current, [&](const CheckpointId& id) { return !own.contains(id.generation); });
  const std::set<CheckpointId> kept = kept_of(own_current, keep, facts);
  std::vector<CheckpointId> gone;
  std::copy_if(present.begin(), present.end(), std::back_inserter(gone), [&](const CheckpointId& id) {
    const bool may_be_written = id.generation == saved.generation && id.step >= saved.step;
    return own.contains(id.generation) && !kept.contains(id) && !may_be_written && !is_just_superseded(id, claims, now);
  });
  return gone;
}

}  // namespace trainyard::checkpoint
