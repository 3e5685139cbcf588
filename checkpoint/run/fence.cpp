#include "checkpoint/run/fence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "checkpoint/format/sealed_json.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"

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
Result<void> check_not_alive(const Inventory& inventory, const Claim& newest, const Identity& ours,
                             const storage::Store& store, Time now) {
  const auto left = inventory.newest_liveness ? alive_for(*inventory.newest_liveness, now) : std::nullopt;
  if (!left) return {};
  std::string message = fmt::format(
      "{} is in use by run {} of generation {}, which was started by hand and is alive: give each "
      "run its own checkpoint.uri. If that run was killed, begin again in {} s, or put an empty "
      "object at {}",
      store.uri_of(""), newest.identity.job, newest.generation, std::chrono::ceil<std::chrono::seconds>(*left).count(),
      store.uri_of(end_key(newest.generation)));
  // A process that is seen to run does not fall silent by waiting, and another job's place is not ours afterwards.
  const bool may_pass = !inventory.newest_liveness->is_running && is_same_job(newest.identity, ours);
  return fail(ErrorKind::invalid, std::move(message), may_pass ? left : std::nullopt);
}

void warn_of_single_writer(storage::Store& store, const Claim& claim) {
  logging::warn("this store has no conditional create: make sure that only one job at a time writes here",
                {{"job", claim.identity.job}, {"uri", store.uri_of("")}});
}

// Some servers ignore the condition and overwrite. So the claim is put once more: a server that does not refuse this is
// found out, and no harm is done, since the claim is equal.
Result<void> try_condition(storage::Store& store, const Claim& claim) {
  const auto again = storage::put_text(store, claim_key(claim.generation), to_text(claim), {.if_absent = true});
  if (again) warn_of_single_writer(store, claim);
  if (!again && again.error().kind != ErrorKind::already_exists) return again;
  return {};
}

Result<void> put_where_none_is(storage::Store& store, const std::string& key, const std::string& text) {
  const auto there = storage::get_text(store, key);
  if (there) return fail(ErrorKind::already_exists, fmt::format("{} is already there", store.uri_of(key)));
  if (!says_absent(there.error().kind)) return tl::unexpected(there.error());
  return storage::put_text(store, key, text);
}

// Puts an object that does not exist. already_exists: it does, or the reply to our own put was lost.
Result<void> create(storage::Store& store, const std::string& key, const std::string& text) {
  if (store.has_conditional_create()) {
    auto put = storage::put_text(store, key, text, {.if_absent = true});
    if (put || store.has_conditional_create()) return put;
    // The server has just refused the condition.
  }
  return put_where_none_is(store, key, text);
}

Result<void> fenced_by(storage::Store& store, const Claim& ours, const Claim& other) {
  if (is_same_job(ours.identity, other.identity)) {
    const bool is_other_life = !is_same_life(ours.identity, other.identity);
    return fail(ErrorKind::conflict,
                fmt::format("attempt {} of {}{} has taken over the checkpoints in {} (generation {}, this run has {})",
                            other.identity.attempt, is_other_life ? "a newer " : "", other.identity.job,
                            store.uri_of(""), other.generation, ours.generation));
  }
  return fail(ErrorKind::invalid,
              fmt::format("job {} has taken over the checkpoints in {}: give each job its own checkpoint.uri",
                          other.identity.job, store.uri_of("")));
}

}  // namespace

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

Result<void> check_may_claim(const Inventory& inventory, const Identity& ours, const storage::Store& store, Time now) {
  TRY(check_claims_readable(inventory, store));
  TRY(check_not_stale(inventory, ours));
  if (inventory.claims.empty()) return {};
  const Claim& newest = inventory.claims.back();
  if (inventory.ended.contains(newest.generation)) return {};
  TRY(check_not_alive(inventory, newest, ours, store, now));
  if (is_same_job(newest.identity, ours)) return check_not_superseded(inventory, newest, ours, store);
  return fail(ErrorKind::invalid,
              fmt::format("{} is in use by job {} (attempt {}): wait until it has ended, or choose another "
                          "checkpoint.uri. If that job was killed and does not come back, say so by putting an empty "
                          "object at {}",
                          store.uri_of(""), newest.identity.job, newest.identity.attempt,
                          store.uri_of(end_key(newest.generation))));
}

std::string make_nonce() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

Result<void> put_claim(storage::Store& store, const Claim& claim) {
  const std::string key = claim_key(claim.generation);
  auto put = create(store, key, to_text(claim));
  if (!put && put.error().kind == ErrorKind::already_exists) {
    // The claim is our own if the reply to an earlier try was lost.
    const auto claimed = storage::get_text(store, key).and_then(parse_claim);
    return claimed && claimed->nonce == claim.nonce ? Result<void>{} : put;
  }
  TRY(put);
  if (store.has_conditional_create()) return try_condition(store, claim);
  warn_of_single_writer(store, claim);
  return {};
}

Result<void> close_claim(storage::Store& store, const Claim& claim) {
  return check_newest(store, claim).and_then([&] {
    return storage::put_text(store, claim_key(claim.generation), to_text(claim));
  });
}

Result<void> check_newest(storage::Store& store, const Claim& ours) {
  const auto highest = TRY(highest_generation(store, ours.generation));
  const auto newest = storage::get_text(store, claim_key(highest)).and_then(parse_claim);
  if (newest) return newest->nonce == ours.nonce ? Result<void>{} : fenced_by(store, ours, *newest);
  if (newest.error().kind == ErrorKind::corrupt || newest.error().kind == ErrorKind::not_found) {
    return fail(ErrorKind::conflict, fmt::format("this run's claim on {} is gone or unreadable: {}", store.uri_of(""),
                                                 newest.error().message));
  }
  return tl::unexpected(newest.error());
}

Result<void> put_end(storage::Store& store, const Claim& ours) {
  return storage::put_text(store, end_key(ours.generation), "");
}

Result<void> put_manifest(storage::Store& store, const Manifest& manifest, const Claim& ours) {
  const std::string key = manifest_key(manifest.id);
  const std::string text = to_text(manifest);
  if (text.size() > sealed_bytes_max) {
    return fail(ErrorKind::invalid,
                fmt::format("{} would have {} bytes, and readers accept {} at most: save fewer entries, or let "
                            "fewer ranks hold parts of them",
                            store.uri_of(key), text.size(), sealed_bytes_max));
  }
  auto put = create(store, key, text);
  if (put || put.error().kind != ErrorKind::already_exists) return put;
  const auto there = TRY(storage::get_text(store, key).and_then(parse_manifest));
  if (there.nonce == manifest.nonce) return {};
  if (there.nonce.starts_with(ours.nonce)) return storage::put_text(store, key, to_text(manifest));
  return fail(ErrorKind::conflict, fmt::format("{} was written by another run", store.uri_of(key)));
}

}  // namespace trainyard::checkpoint
