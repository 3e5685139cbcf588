#include "checkpoint/interchange/catalogue.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/search.hpp"
#include "checkpoint/run/superseded.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

bool is_resumable(const Listed& listed) {
  return listed.is_candidate && listed.standing != Standing::damaged;
}

std::uint64_t stored_bytes(const Inventory& inventory, const CheckpointId& id) {
  std::uint64_t bytes = 0;
  for (auto object = inventory.sizes.lower_bound(folder_key(id) + "/"); object != inventory.sizes.end(); ++object) {
    if (parse_checkpoint_key(object->first) != id) break;
    bytes += object->second;
  }
  return bytes;
}

std::string job_of_claim(const Inventory& inventory, std::int64_t generation) {
  const auto claim = std::find_if(inventory.claims.begin(), inventory.claims.end(),
                                  [&](const Claim& each) { return each.generation == generation; });
  return claim == inventory.claims.end() ? "" : claim->identity.job;
}

}  // namespace

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::complete:
      return "complete";
    case Standing::final:
      return "final";
    case Standing::superseded:
      return "superseded";
    case Standing::unfinished:
      return "unfinished";
    case Standing::damaged:
      return "damaged";
  }
  return "";
}

Listed judge(const Inventory& inventory, const CheckpointId& id, Result<Manifest> manifest) {
  Listed listed{.id = id, .bytes = stored_bytes(inventory, id), .job = job_of_claim(inventory, id.generation)};
  if (!manifest && manifest.error().kind == ErrorKind::not_found) return listed;
  listed.is_candidate = !without_superseded({&id, 1}, inventory.claims).empty();
  const auto whole = manifest ? check_files(inventory, *manifest, id) : Result<void>{tl::unexpected(manifest.error())};
  if (manifest && manifest->id == id) {
    listed.job = manifest->identity.job;
    listed.manifest = std::move(*manifest);
  }
  if (!whole) {
    listed.standing = Standing::damaged;
    listed.reason = whole.error().message;
  } else if (!listed.is_candidate) {
    listed.standing = Standing::superseded;
  } else {
    listed.standing = listed.manifest->is_final ? Standing::final : Standing::complete;
  }
  return listed;
}

const Listed* Catalogue::newest() const {
  const Listed* best = nullptr;
  for (const Listed& listed : checkpoints) {
    if (is_resumable(listed) && (best == nullptr || best->id < listed.id)) best = &listed;
  }
  return best;
}

const Listed* Catalogue::find(const CheckpointId& id) const {
  const auto found =
      std::find_if(checkpoints.begin(), checkpoints.end(), [&](const Listed& listed) { return listed.id == id; });
  return found == checkpoints.end() ? nullptr : &*found;
}

const Listed* Catalogue::of_step(std::int64_t step) const {
  const auto rank_of = [](const Listed& listed) {
    return std::tuple{is_resumable(listed), listed.standing != Standing::unfinished, listed.id.generation};
  };
  const Listed* best = nullptr;
  for (const Listed& listed : checkpoints) {
    if (listed.id.step == step && (best == nullptr || rank_of(*best) < rank_of(listed))) best = &listed;
  }
  return best;
}

Result<Catalogue> read_catalogue(storage::Store& store) {
  auto inventory = TRY(take_inventory(store));
  Catalogue catalogue;
  for (const CheckpointId& id : inventory.present) {
    // A manifest is asked for even if it is not listed, since a store's lists may lag behind.
    const std::string key = manifest_key(id);
    const auto text = storage::get_text(store, key);
    const bool is_absent = !text && says_absent(text.error().kind) && !inventory.sizes.contains(key);
    Result<Manifest> manifest = fail(ErrorKind::not_found, "it has no manifest");
    if (!is_absent) manifest = text.and_then(parse_manifest);
    if (text) inventory.sizes.emplace(key, text->size());
    if (manifest) {
      TRY(add_unlisted_files(store, *manifest, inventory));
    }
    // ErrorKind::invalid: the manifest has a newer format.
    const bool is_readable =
        manifest || is_damage(manifest.error().kind) || manifest.error().kind == ErrorKind::invalid;
    if (!is_readable) return tl::unexpected(manifest.error());
    catalogue.checkpoints.push_back(judge(inventory, id, std::move(manifest)));
  }
  std::sort(catalogue.checkpoints.begin(), catalogue.checkpoints.end(), [](const Listed& a, const Listed& b) {
    return std::pair{a.id.generation, a.id.step} < std::pair{b.id.generation, b.id.step};
  });
  catalogue.inventory = std::move(inventory);
  return catalogue;
}

}  // namespace trainyard::checkpoint
