#include "checkpoint/run/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/sealed_json.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/superseded.hpp"
#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

bool is_our_own(const Identity& other, const Identity& ours) {
  return is_same_life(other, ours) && other.fingerprint == ours.fingerprint;
}

Result<void> check_may_resume(const storage::Store& store, const Identity& resumer, const Manifest& manifest) {
  if (is_same_life(manifest.identity, resumer) || manifest.identity.fingerprint == resumer.fingerprint) return {};
  constexpr std::size_t shown_bytes = 200;
  return fail(ErrorKind::invalid,
              fmt::format("{} was saved by job {} with another model or other data ({} there, {} here): set "
                          "checkpoint.resume: none to begin afresh there, or choose another checkpoint.uri; where "
                          "`trainyard run` chose the folder, choose another with --dir, or remove it",
                          store.uri_of(folder_key(manifest.id)), manifest.identity.job,
                          keep_beginning(manifest.identity.fingerprint, shown_bytes),
                          keep_beginning(resumer.fingerprint, shown_bytes)));
}

// Does not fetch a manifest whose listed size is above the limit.
Result<std::string> get_manifest(storage::Store& store, const Inventory& inventory, const CheckpointId& id) {
  const auto listed = inventory.sizes.find(manifest_key(id));
  if (listed != inventory.sizes.end() && listed->second > sealed_bytes_max) {
    return fail(ErrorKind::corrupt,
                fmt::format("its manifest has {} bytes, more than the limit of {}", listed->second, sealed_bytes_max));
  }
  return storage::get_text(store, manifest_key(id));
}

}  // namespace

bool is_damage(ErrorKind kind) {
  return kind == ErrorKind::corrupt || kind == ErrorKind::not_found;
}

Result<Search> Search::begin(const RunContext& context, CopiesByKeeper copies) {
  auto inventory = TRY(take_inventory(context.store));
  TRY(add_unlisted_claims(context.store, inventory));
  Search search{context.store,          &context.clock,       context.identity,
                context.resumes_others, std::move(inventory), std::move(copies)};
  TRY(search.check_succession());
  TRY(add_unlisted_manifests(context.store, search.inventory_));
  search.list_candidates();
  return search;
}

Result<Search> Search::begin(const Origin& origin) {
  auto inventory = TRY(take_inventory(origin.store));
  if (!origin.id) {
    TRY(check_claims_readable(inventory, origin.store));
    TRY(add_unlisted_manifests(origin.store, inventory));
  }
  Search search{origin.store, nullptr, std::nullopt, /*resumes_others=*/true, std::move(inventory), {}};
  search.list_candidates();
  if (origin.id) search.left_ = {{.id = *origin.id, .nonce = {}, .keepers = {}}};
  return search;
}

Result<void> Search::check_succession() {
  return read_newest_liveness(*store_, inventory_).and_then([&] {
    return check_may_claim(inventory_, *resumer_, *store_, clock_->now());
  });
}

Result<std::int64_t> Search::next_generation() {
  const auto has_changed = TRY(refresh_claims(*store_, inventory_));
  TRY(check_succession());
  if (has_changed) {
    return fail(ErrorKind::already_exists,
                fmt::format("another run has claimed {} while this one loaded", store_->uri_of(claims_prefix)));
  }
  return inventory_.generation_max + 1;
}

void Search::list_candidates() {
  std::vector<CheckpointId> remote = without_superseded(inventory_.complete, inventory_.claims);
  if (!resumes_others_) {
    std::erase_if(remote, [&](const CheckpointId& id) {
      return std::none_of(inventory_.claims.begin(), inventory_.claims.end(), [&](const Claim& claim) {
        return claim.generation == id.generation && is_our_own(claim.identity, *resumer_);
      });
    });
  }
  left_ = checkpoint::order_candidates(remote, copies_, inventory_.claims, resumer_.value_or(Identity{}));
}

Result<bool> Search::refresh(CopiesByKeeper copies) {
  auto listed = TRY(list_checkpoints(*store_));
  const std::vector<CheckpointId> before = std::exchange(inventory_.complete, std::move(listed.complete));
  const CopiesByKeeper copies_before = std::exchange(copies_, std::move(copies));
  inventory_.present = std::move(listed.present);
  inventory_.sizes = std::move(listed.sizes);
  // A run that was just beginning when its claim was read may have saved since. Where lists lag behind, only its closed
  // claim leads to what it saved.
  TRY(refresh_open_claims(*store_, inventory_));
  TRY(add_unlisted_manifests(*store_, inventory_));
  list_candidates();
  const auto was_copied = [&](const Candidate& candidate) {
    return std::ranges::any_of(copies_before, [&](const auto& held) {
      return std::ranges::any_of(
          held.second, [&](const Copy& copy) { return copy.id == candidate.id && copy.nonce == candidate.nonce; });
    });
  };
  return std::ranges::any_of(left_, [&](const Candidate& candidate) {
    return candidate.is_local() ? !was_copied(candidate) : std::ranges::find(before, candidate.id) == before.end();
  });
}

void Search::skip_keepers(Candidate local, const std::vector<std::int64_t>& keepers) {
  std::erase_if(local.keepers,
                [&](std::int64_t keeper) { return std::ranges::find(keepers, keeper) != keepers.end(); });
  if (!local.keepers.empty()) left_.push_back(std::move(local));
}

std::vector<std::string> Search::rejections() const {
  std::vector<std::string> found;
  for (const auto& [keeper, held] : copies_) {
    for (const Copy& copy : held) {
      const std::string rejection = rejection_of(copy, inventory_.claims, *resumer_);
      if (!rejection.empty()) found.push_back(fmt::format("rank {}: {}: {}", keeper, folder_key(copy.id), rejection));
    }
  }
  return found;
}

Result<Search::Offer> Search::next() {
  Offer offer;
  while (!left_.empty()) {
    const Candidate candidate = std::move(left_.back());
    left_.pop_back();
    if (candidate.is_local()) {
      offer.local = candidate;
      return offer;
    }
    const CheckpointId& id = candidate.id;
    const auto text = get_manifest(*store_, inventory_, id);
    const auto manifest = text.and_then(parse_manifest);
    const auto whole = manifest.and_then([&](const Manifest& m) {
      return add_unlisted_files(*store_, m, inventory_).and_then([&] { return check_files(inventory_, m, id); });
    });
    if (whole) {
      TRY(resumer_ ? check_may_resume(*store_, *resumer_, *manifest) : Result<void>{});
      offer.manifest_text = *text;
      return offer;
    }
    const std::string uri = store_->uri_of(folder_key(id));
    if (!is_damage(whole.error().kind)) return fail(uri, whole.error());
    offer.skipped.push_back(fmt::format("{}: {}", uri, whole.error().message));
    offer.has_skipped_complete = offer.has_skipped_complete || !text || !is_torn(*text);
  }
  return offer;
}

}  // namespace trainyard::checkpoint
