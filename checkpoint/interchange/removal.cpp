#include "checkpoint/interchange/removal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "checkpoint/format/layout.hpp"

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

}  // namespace trainyard::checkpoint
