#include "checkpoint/run/inventory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "checkpoint/format/sealed_json.hpp"
#include "checkpoint/run/newest_saved.hpp"
#include "checkpoint/run/superseded.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

struct Generations {
  std::set<std::int64_t> claimed;
  std::set<std::int64_t> ended;
};

Result<Generations> list_generations(storage::Store& store) {
  return store.list(claims_prefix).map([](const std::vector<storage::ObjectInfo>& objects) {
    Generations generations;
    for (const storage::ObjectInfo& object : objects) {
      if (const auto claimed = parse_claim_key(object.key)) generations.claimed.insert(*claimed);
      if (const auto ended = parse_end_key(object.key)) generations.ended.insert(*ended);
    }
    return generations;
  });
}

void add_claim(storage::Store& store, std::int64_t generation, const std::string& text, Inventory& inventory) {
  inventory.claimed.insert(generation);
  inventory.generation_max = std::max(inventory.generation_max, generation);
  auto claim = parse_listed_claim(text, generation, !store.has_conditional_create());
  if (claim && *claim) return inventory.claims.push_back(std::move(**claim));
  if (!claim) inventory.unreadable.push_back({.generation = generation, .reason = claim.error().message});
  logging::warn(claim ? "a generation's claim is torn and is ignored" : "a generation's claim cannot be read",
                {{"uri", store.uri_of(claim_key(generation))}, {"error", claim ? "" : claim.error().message}});
}

Result<void> read_claims(storage::Store& store, Inventory& inventory) {
  const auto generations = TRY(list_generations(store));
  inventory.ended = generations.ended;
  for (const std::int64_t generation : generations.claimed) {
    const auto text = TRY(storage::get_text(store, claim_key(generation)));
    add_claim(store, generation, text, inventory);
  }
  return {};
}

// A bound for a store that answers every key: generations are claimed without gaps.
constexpr int unlisted_claims_max = 1'000;

// Calls `take` with each claim after `generation`, listed or not, up to the first generation without a claim.
template <typename Take>
Result<void> find_unlisted(storage::Store& store, std::int64_t generation, const Take& take) {
  for (int count = 0; count < unlisted_claims_max; ++count) {
    const auto text = storage::get_text(store, claim_key(++generation));
    if (!text && says_absent(text.error().kind)) return {};
    TRY(text);
    take(generation, *text);
  }
  return fail(ErrorKind::unavailable, store.uri_of(claims_prefix) + " holds many claims that are not listed");
}

// More runs in a row that saved nothing are rare.
constexpr int runs_asked_max = 8;

// Goes from the newest run back to the newest that has saved a checkpoint. Returns what these runs resumed from, and
// the last checkpoint of the last run. Earlier runs name nothing useful: training has passed those steps, and retention
// may have removed them.
Result<std::set<CheckpointId>> named_by_runs(storage::Store& store, const Inventory& inventory) {
  std::set<CheckpointId> named;
  int asked = 0;
  for (auto claim = inventory.claims.rbegin(); claim != inventory.claims.rend() && asked < runs_asked_max; ++claim) {
    if (claim->is_open) continue;  // Its run saves nothing before the claim is closed.
    ++asked;
    if (claim->resumed_from) named.insert(*claim->resumed_from);
    const auto saved = TRY(read_newest_saved(store, *claim));
    if (!saved) continue;
    named.insert(*saved);
    break;
  }
  return named;
}

// The checkpoints without a listed manifest that are not superseded, the newest first.
std::vector<CheckpointId> unlisted_of(const Inventory& inventory, std::set<CheckpointId> named) {
  named.insert(inventory.present.begin(), inventory.present.end());
  for (const CheckpointId& id : inventory.complete) named.erase(id);
  std::vector<CheckpointId> unlisted =
      without_superseded(std::vector<CheckpointId>{named.begin(), named.end()}, inventory.claims);
  unlisted.resize(std::min(unlisted.size(), unlisted_checkpoints_max));
  return unlisted;
}

// Reads `claim` again. True when it has changed or is gone; a claim that is gone stays as it was known.
Result<bool> read_again(storage::Store& store, Claim& claim) {
  const auto now = storage::get_text(store, claim_key(claim.generation)).and_then(parse_claim);
  if (!now && now.error().kind != ErrorKind::corrupt && !says_absent(now.error().kind))
    return tl::unexpected(now.error());
  const bool has_changed = !now || *now != claim;
  if (now) claim = *now;
  return has_changed;
}

void insert_in_order(std::vector<CheckpointId>& all, const CheckpointId& id) {
  const auto place = std::lower_bound(all.begin(), all.end(), id);
  if (place == all.end() || *place != id) all.insert(place, id);
}

}  // namespace

bool says_absent(ErrorKind kind) {
  return kind == ErrorKind::not_found || kind == ErrorKind::forbidden;
}

Result<std::optional<Claim>> parse_listed_claim(std::string_view text, std::int64_t generation, bool may_tear) {
  auto claim = parse_claim(text);
  if (!claim && may_tear && is_torn(text)) return std::nullopt;
  TRY(claim);
  if (claim->generation != generation)
    return fail(ErrorKind::corrupt, fmt::format("its generation is {}", claim->generation));
  return std::move(*claim);
}

std::vector<std::string> keys_to_remove(const Inventory& inventory, const CheckpointId& id) {
  std::vector<std::string> keys = {manifest_key(id)};
  bool is_written = false;
  for (auto object = inventory.sizes.lower_bound(folder_key(id) + "/"); object != inventory.sizes.end(); ++object) {
    const std::string& key = object->first;
    if (parse_checkpoint_key(key) != id) break;
    if (!parse_written_key(key)) continue;
    is_written = true;
    if (key != keys.front()) keys.push_back(key);
  }
  return is_written ? keys : std::vector<std::string>{};
}

Result<Inventory> list_checkpoints(storage::Store& store) {
  auto objects = TRY(store.list(checkpoints_prefix));
  Inventory inventory;
  std::set<CheckpointId> present;
  for (storage::ObjectInfo& object : objects) {
    const auto id = parse_checkpoint_key(object.key);
    if (!id) continue;
    present.insert(*id);
    if (object.key == manifest_key(*id)) inventory.complete.push_back(*id);
    inventory.sizes.emplace(std::move(object.key), object.bytes);
  }
  inventory.present.assign(present.begin(), present.end());
  std::sort(inventory.complete.begin(), inventory.complete.end());
  return inventory;
}

Result<Inventory> take_inventory(storage::Store& store) {
  auto inventory = TRY(list_checkpoints(store));
  // The claims come second, so that every claim made during the listing is seen.
  return read_claims(store, inventory).map([&] { return std::move(inventory); });
}

Result<std::vector<Claim>> list_claims(storage::Store& store) {
  Inventory inventory;
  return read_claims(store, inventory).map([&] { return std::move(inventory.claims); });
}

Result<void> add_unlisted_claims(storage::Store& store, Inventory& inventory) {
  return find_unlisted(store, inventory.generation_max, [&](std::int64_t generation, const std::string& text) {
    add_claim(store, generation, text, inventory);
  });
}

Result<void> add_unlisted_manifests(storage::Store& store, Inventory& inventory) {
  auto named = TRY(named_by_runs(store, inventory));
  for (const CheckpointId& id : unlisted_of(inventory, std::move(named))) {
    const auto text = storage::get_text(store, manifest_key(id));
    if (!text && says_absent(text.error().kind)) continue;
    TRY(text);
    insert_in_order(inventory.present, id);
    insert_in_order(inventory.complete, id);
    inventory.sizes.emplace(manifest_key(id), text->size());
  }
  return {};
}

Result<void> add_unlisted_files(storage::Store& store, const Manifest& manifest, Inventory& inventory) {
  for (const Receipt& receipt : manifest.receipts) {
    const std::string key = data_key(manifest, receipt.rank);
    if (inventory.sizes.contains(key)) continue;
    if (receipt.bytes == 0) return {};  // No data file is empty: it has a header.
    std::byte last{};
    const auto read = store.get_range(key, receipt.bytes - 1, {&last, 1});
    if (!read && (says_absent(read.error().kind) || read.error().kind == ErrorKind::corrupt)) return {};
    TRY(read);
    inventory.sizes.emplace(key, receipt.bytes);
  }
  return {};
}

Result<void> read_newest_liveness(storage::Store& store, Inventory& inventory) {
  inventory.newest_liveness.reset();
  if (inventory.claims.empty() || inventory.ended.contains(inventory.claims.back().generation)) return {};
  return read_liveness(store, inventory.claims.back()).map([&](const std::optional<Liveness>& liveness) {
    inventory.newest_liveness = liveness;
  });
}

Result<void> refresh_open_claims(storage::Store& store, Inventory& inventory) {
  for (Claim& claim : inventory.claims) {
    if (claim.is_open) TRY(read_again(store, claim));
  }
  return {};
}

Result<bool> refresh_claims(storage::Store& store, Inventory& inventory) {
  const auto listed = TRY(list_generations(store));
  inventory.ended.insert(listed.ended.begin(), listed.ended.end());
  bool has_changed = false;
  for (Claim& claim : inventory.claims) {
    const bool may_have_changed = claim.is_open || &claim == &inventory.claims.back();  // A clean-up removes them all.
    if (!may_have_changed) continue;
    const auto is_changed = TRY(read_again(store, claim));
    has_changed = has_changed || is_changed;
  }
  for (const std::int64_t generation : listed.claimed) {
    if (inventory.claimed.contains(generation)) continue;
    const auto text = TRY(storage::get_text(store, claim_key(generation)));
    add_claim(store, generation, text, inventory);
    has_changed = true;
  }
  std::sort(inventory.claims.begin(), inventory.claims.end(),
            [](const Claim& a, const Claim& b) { return a.generation < b.generation; });
  const std::int64_t known = inventory.generation_max;
  return add_unlisted_claims(store, inventory).map([&] { return has_changed || inventory.generation_max != known; });
}

Result<std::int64_t> highest_generation(storage::Store& store, std::int64_t known) {
  // The list is read first because a network file system finds new names only when it lists a folder.
  const auto listed = TRY(list_generations(store));
  std::int64_t highest = listed.claimed.empty() ? known : std::max(known, *listed.claimed.rbegin());
  return find_unlisted(store, highest, [&](std::int64_t generation, const auto&) { highest = generation; }).map([&] {
    return highest;
  });
}

Result<void> check_files(const Inventory& inventory, const Manifest& manifest, const CheckpointId& id) {
  if (manifest.id != id) return fail(ErrorKind::corrupt, "its manifest is of another checkpoint");
  for (const Receipt& receipt : manifest.receipts) {
    const auto found = inventory.sizes.find(data_key(manifest, receipt.rank));
    if (found == inventory.sizes.end())
      return fail(ErrorKind::corrupt, fmt::format("the file of rank {} is missing", receipt.rank));
    if (found->second != receipt.bytes) {
      return fail(ErrorKind::corrupt, fmt::format("the file of rank {} has {} bytes instead of {}", receipt.rank,
                                                  found->second, receipt.bytes));
    }
  }
  return {};
}

}  // namespace trainyard::checkpoint
