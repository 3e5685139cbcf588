#include "worker/checkpoint/core/inventory.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "common/logging.hpp"

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
  auto claim = parse_claim(text);
  if (claim && claim->generation == generation) {
    inventory.claims.push_back(std::move(*claim));
  } else {
    logging::warn("a generation's claim cannot be read and is ignored",
                  {{"uri", store.uri_of(claim_key(generation))},
                   {"error", claim ? "it is of another generation" : claim.error().message}});
  }
}

Result<void> read_claims(storage::Store& store, Inventory& inventory) {
  const auto generations = list_generations(store);
  if (!generations) return tl::unexpected(generations.error());
  inventory.ended = generations->ended;
  for (const std::int64_t generation : generations->claimed) {
    const auto text = storage::get_text(store, claim_key(generation));
    if (!text) return tl::unexpected(text.error());
    add_claim(store, generation, *text, inventory);
  }
  return {};
}

// Claims have no gap between them.
constexpr int unlisted_claims_max = 1'000;

// Calls `take` with the claims after `generation`, which the store does not list yet.
template <typename Take>
Result<void> find_unlisted(storage::Store& store, std::int64_t generation, const Take& take) {
  for (int count = 0; count < unlisted_claims_max; ++count) {
    const auto text = storage::get_text(store, claim_key(++generation));
    // S3 forbids to ask for what is not there where a policy allows to list the prefix and not the whole bucket.
    const bool is_none =
        !text && (text.error().kind == ErrorKind::not_found || text.error().kind == ErrorKind::forbidden);
    if (is_none) return {};
    if (!text) return tl::unexpected(text.error());
    take(generation, *text);
  }
  return fail(ErrorKind::unavailable, store.uri_of(claims_prefix) + " holds many claims that are not listed");
}

}  // namespace

Result<Inventory> list_checkpoints(storage::Store& store) {
  auto objects = store.list(checkpoints_prefix);
  if (!objects) return tl::unexpected(objects.error());
  Inventory inventory;
  std::set<CheckpointId> present;
  for (storage::ObjectInfo& object : *objects) {
    const auto id = parse_checkpoint_key(object.key);
    if (!id) continue;
    present.insert(*id);
    if (object.key == manifest_key(*id)) inventory.complete.push_back(*id);
    inventory.sizes.emplace(std::move(object.key), object.bytes);
  }
  inventory.present.assign(present.begin(), present.end());
  return inventory;
}

Result<Inventory> take_inventory(storage::Store& store) {
  auto inventory = list_checkpoints(store);
  if (!inventory) return inventory;
  // Claims second: one that was made before the listing ended is seen.
  return read_claims(store, *inventory).map([&] { return std::move(*inventory); });
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

Result<std::int64_t> highest_generation(storage::Store& store, std::int64_t known) {
  // The list is asked for all the same: a network file system looks for new names when it lists them.
  const auto listed = list_generations(store);
  if (!listed) return tl::unexpected(listed.error());
  std::int64_t highest = listed->claimed.empty() ? known : std::max(known, *listed->claimed.rbegin());
  return find_unlisted(store, highest, [&](std::int64_t generation, const auto&) { highest = generation; }).map([&] {
    return highest;
  });
}

}  // namespace trainyard::checkpoint
