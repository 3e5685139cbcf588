#include "checkpoint/run/claim_permission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "common/try.hpp"

namespace trainyard::checkpoint {

Result<void> check_claims_readable(const Inventory& inventory, const storage::Store& store) {
  if (inventory.unreadable.empty()) return {};
  const UnreadableClaim& first = inventory.unreadable.front();
  const std::string uri = store.uri_of(claim_key(first.generation));
  return fail(
      ErrorKind::invalid,
      fmt::format("{} cannot be read ({}), and it says which checkpoints of earlier runs are superseded: put back what "
                  "was there, or remove it if any checkpoint under {} may be resumed again",
                  uri, first.reason, store.uri_of("")));
}

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

// Without this check, two lives of one job that both run would fence each other for ever.
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

// Two runs by hand look like runs of one job: without this check they would fence each other for ever.
Result<void> check_not_alive(const Inventory& inventory, const Claim& newest, const storage::Store& store, Time now) {
  const auto left = inventory.newest_sign ? life_left(*inventory.newest_sign, now) : std::nullopt;
  if (!left) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("{} is in use by run {} of generation {}, which was started by hand and is alive: give each "
                  "run its own checkpoint.uri. If that run was killed, begin again in {} s, or put an empty "
                  "object at {}",
                  store.uri_of(""), newest.identity.job, newest.generation,
                  std::chrono::ceil<std::chrono::seconds>(*left).count(), store.uri_of(end_key(newest.generation))));
}

}  // namespace

Result<void> check_may_claim(const Inventory& inventory, const Identity& ours, const storage::Store& store, Time now) {
  TRY(check_claims_readable(inventory, store));
  TRY(check_not_stale(inventory, ours));
  if (inventory.claims.empty()) return {};
  const Claim& newest = inventory.claims.back();
  if (inventory.ended.contains(newest.generation)) return {};
  TRY(check_not_alive(inventory, newest, store, now));
  if (is_same_job(newest.identity, ours)) return check_not_superseded(inventory, newest, ours, store);
  return fail(ErrorKind::invalid,
              fmt::format("{} is in use by job {} (attempt {}): wait until it has ended, or choose another "
                          "checkpoint.uri. If that job was killed and does not come back, say so by putting an empty "
                          "object at {}",
                          store.uri_of(""), newest.identity.job, newest.identity.attempt,
                          store.uri_of(end_key(newest.generation))));
}

}  // namespace trainyard::checkpoint
