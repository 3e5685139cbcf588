#include "worker/checkpoint/core/inventory.hpp"

#include <set>

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

Result<void> read_claims(storage::Store& store, Inventory& inventory) {
  const auto generations = list_generations(store);
  if (!generations) return tl::unexpected(generations.error());
  inventory.ended = generations->ended;
  for (const std::int64_t generation : generations->claimed) {
    inventory.generation_max = generation;
    const auto text = storage::get_text(store, claim_key(generation));
    if (!text) return tl::unexpected(text.error());
    auto claim = parse_claim(*text);
    if (claim && claim->generation == generation) {
      inventory.claims.push_back(std::move(*claim));
    } else {
      logging::warn("a generation's claim cannot be read and is ignored",
                    {{"uri", store.uri_of(claim_key(generation))},
                     {"error", claim ? "it is of another generation" : claim.error().message}});
    }
  }
  return {};
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

Result<std::int64_t> highest_generation(storage::Store& store) {
  return list_generations(store).map(
      [](const Generations& generations) { return generations.claimed.empty() ? 0 : *generations.claimed.rbegin(); });
}

}  // namespace trainyard::checkpoint
