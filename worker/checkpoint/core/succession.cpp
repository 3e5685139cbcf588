#include "worker/checkpoint/core/succession.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::checkpoint {
namespace {

Result<void> check_not_stale(const Inventory& inventory, const Identity& ours) {
  for (const Claim& claim : inventory.claims) {
    if (is_same_life(claim.identity, ours) && claim.identity.attempt > ours.attempt) {
      return fail(ErrorKind::conflict, fmt::format("attempt {} of {} has begun already, and this is attempt {}",
                                                   claim.identity.attempt, ours.job, ours.attempt));
    }
  }
  return {};
}

// Without this, two lives of one job that both go on would take the place from each other for ever.
Result<void> check_not_superseded(const Inventory& inventory, const Claim& newest, const Identity& ours,
                                  const storage::Store& store) {
  const bool is_newer_life = !newest.identity.job_uid.empty() && !is_same_life(newest.identity, ours);
  const bool was_here_before = std::any_of(inventory.claims.begin(), inventory.claims.end(),
                                           [&](const Claim& claim) { return is_same_life(claim.identity, ours); });
  if (!is_newer_life || !was_here_before) return {};
  return fail(ErrorKind::invalid,
              fmt::format("a newer {} (UID {}, attempt {}) has taken over the checkpoints in {}, so that this one (UID "
                          "{}) does not go on: delete it, or give each its own checkpoint.uri",
                          newest.identity.job, newest.identity.job_uid, newest.identity.attempt, store.uri_of(""),
                          ours.job_uid));
}

}  // namespace

Result<void> check_may_follow(const Inventory& inventory, const Identity& ours, const storage::Store& store) {
  if (auto fresh = check_not_stale(inventory, ours); !fresh) return fresh;
  if (inventory.claims.empty()) return {};
  const Claim& newest = inventory.claims.back();
  if (inventory.ended.contains(newest.generation)) return {};
  if (is_same_job(newest.identity, ours)) return check_not_superseded(inventory, newest, ours, store);
  return fail(ErrorKind::invalid,
              fmt::format("{} is in use by job {} (attempt {}): wait until it has ended, or choose another "
                          "checkpoint.uri. If that job was killed and does not come back, say so by putting an empty "
                          "object at {}",
                          store.uri_of(""), newest.identity.job, newest.identity.attempt,
                          store.uri_of(end_key(newest.generation))));
}

}  // namespace trainyard::checkpoint
