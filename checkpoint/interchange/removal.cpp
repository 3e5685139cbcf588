#include "checkpoint/interchange/removal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/search.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {

Removal removal_of(const Inventory& inventory, const CheckpointId& id) {
  Removal removal;
  for (auto object = inventory.sizes.lower_bound(folder_key(id) + "/"); object != inventory.sizes.end(); ++object) {
    const std::string& key = object->first;
    if (parse_checkpoint_key(key) != id) break;
    (parse_written_key(key) ? removal.keys : removal.strangers).push_back(key);
  }
  std::stable_partition(removal.keys.begin(), removal.keys.end(),
                        [&](const std::string& key) { return key == manifest_key(id); });
  return removal;
}

Result<Removal> plan_removal(const Catalogue& catalogue, const Listed& listed, bool is_forced) {
  const CheckpointId& id = listed.id;
  const Inventory& inventory = catalogue.inventory;
  if (!is_forced && catalogue.newest() == &listed) {
    return fail(ErrorKind::conflict,
                fmt::format("{} is the newest checkpoint, from which a run would go on: give --force to remove it "
                            "nevertheless",
                            folder_key(id)));
  }
  const bool may_be_written = listed.standing == Standing::unfinished && id.generation == inventory.generation_max &&
                              !inventory.ended.contains(id.generation);
  if (!is_forced && may_be_written) {
    return fail(ErrorKind::conflict,
                fmt::format("{} is unfinished, and the run that may be writing it{} has not ended: "
                            "give --force if that run is dead",
                            folder_key(id), listed.job.empty() ? "" : ", of " + listed.job + ","));
  }
  return removal_of(inventory, id);
}

Result<void> remove_all(storage::Store& store, const Removal& removal) {
  if (removal.keys.empty()) return {};
  return store.remove(removal.keys.front()).and_then([&] {
    return store.remove_all(std::span{removal.keys}.subspan(1));
  });
}

namespace {

struct Snapshots {
  std::vector<CheckpointId> present;
  std::size_t strangers = 0;  // Objects in their folders that no worker writes.
};

struct Contents {
  Inventory inventory;
  Snapshots snapshots;
};

tl::unexpected<Error> not_alone(const storage::Store& store, const std::string& what) {
  return fail(ErrorKind::invalid, fmt::format("{} also holds {}: nothing is removed", store.uri_of(""), what));
}

std::string name_of(const Identity& other) {
  return other.job_uid.empty() ? fmt::format("job {}", other.job)
                               : fmt::format("job {} (UID {})", other.job, other.job_uid);
}

bool has_claim_of(const Inventory& inventory, const Identity& ours) {
  return std::any_of(inventory.claims.begin(), inventory.claims.end(),
                     [&](const Claim& claim) { return is_same_life(claim.identity, ours); });
}

Result<void> check_claims(const storage::Store& store, const Inventory& inventory, const Identity& ours) {
  for (const Claim& claim : inventory.claims) {
    if (!is_same_life(claim.identity, ours))
      return not_alone(store, fmt::format("generation {} of {}", claim.generation, name_of(claim.identity)));
    if (claim.identity.attempt > ours.attempt) {
      return not_alone(store, fmt::format("generation {} of attempt {} of this job, which is newer than the clean-up",
                                          claim.generation, claim.identity.attempt));
    }
  }
  if (inventory.claims.size() == inventory.claimed.size()) return {};
  return not_alone(store, "a claim that cannot be read, so that nobody knows whose it is");
}

// A manifest that cannot be read is taken for the generation's owner's.
Result<void> check_checkpoints(storage::Store& store, const Inventory& inventory, const Identity& ours) {
  for (const CheckpointId& id : inventory.present) {
    // A folder with nothing but people's files is no checkpoint. It remains after its generation's claim is removed.
    if (removal_of(inventory, id).keys.empty()) continue;
    if (!inventory.claimed.contains(id.generation))
      return not_alone(store, fmt::format("{}, of a generation that nobody has claimed", folder_key(id)));
    if (!inventory.sizes.contains(manifest_key(id))) continue;
    const auto manifest = storage::get_text(store, manifest_key(id)).and_then(parse_manifest);
    if (manifest && !is_same_life(manifest->identity, ours))
      return not_alone(store, fmt::format("{}, of {}", folder_key(id), name_of(manifest->identity)));
    const bool is_unreadable =
        !manifest && (is_damage(manifest.error().kind) || manifest.error().kind == ErrorKind::invalid);
    if (!manifest && !is_unreadable) return tl::unexpected(manifest.error());
  }
  return {};
}

// A snapshot names no job: it belongs to its generation's owner.
Result<void> check_snapshots(const storage::Store& store, const Contents& contents) {
  for (const CheckpointId& id : contents.snapshots.present) {
    if (!contents.inventory.claimed.contains(id.generation))
      return not_alone(store, fmt::format("{}, of a generation that nobody has claimed", snapshot_key(id)));
  }
  return {};
}

Result<Snapshots> list_snapshots(storage::Store& store) {
  return store.list(snapshots_prefix).map([](const std::vector<storage::ObjectInfo>& objects) {
    Snapshots snapshots;
    for (const storage::ObjectInfo& object : objects) {
      const std::string_view folder = std::string_view{object.key}.substr(0, object.key.rfind('/'));
      if (const auto id = parse_snapshot_key(object.key)) {
        snapshots.present.push_back(*id);
      } else if (parse_snapshot_folder(folder)) {
        ++snapshots.strangers;
      }
    }
    return snapshots;
  });
}

// The claims come last, so that every claim made during the listings is seen.
Result<Contents> list_contents(storage::Store& store) {
  auto snapshots = TRY(list_snapshots(store));
  auto inventory = TRY(take_inventory(store));
  return add_unlisted_claims(store, inventory).map([&] {
    return Contents{.inventory = std::move(inventory), .snapshots = std::move(snapshots)};
  });
}

Result<void> check_alone(storage::Store& store, const Contents& contents, const Identity& ours) {
  return check_claims(store, contents.inventory, ours)
      .and_then([&] { return check_checkpoints(store, contents.inventory, ours); })
      .and_then([&] { return check_snapshots(store, contents); });
}

// The claim is open: it supersedes nothing, in case the checkpoints have to stay after all.
Result<void> fence_ranks(storage::Store& store, const Inventory& inventory, const Identity& ours, const Clock& clock) {
  return put_claim(store, {.generation = inventory.generation_max + 1,
                           .identity = ours,
                           .resumed_from = std::nullopt,
                           .time = clock.now(),
                           .nonce = make_nonce(),
                           .is_open = true});
}

Result<void> remove_checkpoints(storage::Store& store, const Inventory& inventory, CleanedUp& cleaned) {
  for (const CheckpointId& id : inventory.present) {
    const Removal removal = removal_of(inventory, id);
    TRY(remove_all(store, removal));
    cleaned.strangers += removal.strangers.size();
    if (!removal.keys.empty()) ++cleaned.checkpoints;
  }
  return {};
}

Result<void> remove_snapshots(storage::Store& store, const Snapshots& snapshots, CleanedUp& cleaned) {
  std::vector<std::string> keys;
  for (const CheckpointId& id : snapshots.present) keys.push_back(snapshot_key(id));
  // A job may have tens of thousands of snapshots.
  TRY(store.remove_all(keys));
  cleaned.snapshots = snapshots.present.size();
  cleaned.strangers += snapshots.strangers;
  return {};
}

Result<void> remove_unfinished(storage::Store& store, const Inventory& inventory) {
  return store.remove_unfinished([&](std::string_view folder) {
    const auto generation = generation_of_folder(folder);
    return generation && inventory.claimed.contains(*generation);
  });
}

// The claims go last, since the next call knows the job's objects by them; the claim that fences is the very last. An
// end goes before its claim: otherwise it would be taken for the end of a later run with the same generation.
Result<void> remove_claims(storage::Store& store, const Inventory& inventory) {
  for (const std::int64_t generation : inventory.claimed) {
    for (const std::string& key : {saved_key(generation), end_key(generation)}) {
      TRY(store.remove(key));
    }
    TRY(store.remove(claim_key(generation)));
  }
  return {};
}

}  // namespace

Result<CleanedUp> clean_up(storage::Store& store, const Identity& ours, const Clock& clock) {
  const auto first = TRY(list_contents(store));
  if (!has_claim_of(first.inventory, ours)) return CleanedUp{};
  TRY(check_alone(store, first, ours));
  TRY(fence_ranks(store, first.inventory, ours, clock));
  // Lists again: what runs wrote before the fence is listed now.
  const auto last = TRY(list_contents(store));
  CleanedUp cleaned;
  return check_alone(store, last, ours)
      .and_then([&] { return remove_checkpoints(store, last.inventory, cleaned); })
      .and_then([&] { return remove_snapshots(store, last.snapshots, cleaned); })
      .and_then([&] { return remove_unfinished(store, last.inventory); })
      .and_then([&] { return remove_claims(store, last.inventory); })
      .map([&] { return cleaned; });
}

}  // namespace trainyard::checkpoint
