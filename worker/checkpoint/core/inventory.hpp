#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/core/claim.hpp"
#include "worker/checkpoint/core/layout.hpp"

namespace trainyard::checkpoint {

/// What is under a prefix.
struct Inventory {
  std::vector<Claim> claims;                   ///< Those that could be read, by generation.
  std::set<std::int64_t> claimed;              ///< The generations that have a claim, be it one that cannot be read.
  std::int64_t generation_max = 0;             ///< Highest claimed, also by a claim that cannot be read; 0: none.
  std::set<std::int64_t> ended;                ///< The generations whose runs have ended in order.
  std::vector<CheckpointId> present;           ///< Complete or not, in order.
  std::vector<CheckpointId> complete;          ///< Those with a manifest.
  std::map<std::string, std::uint64_t> sizes;  ///< Of every object of a checkpoint, by key.
};

/// The checkpoints only: what is known of generations is left empty.
[[nodiscard]] Result<Inventory> list_checkpoints(storage::Store& store);

/// Lists the prefix and reads the claims. A claim that is torn (which only a store without whole objects leaves) is
/// left out with a warning: who wrote it never got to write anything else.
[[nodiscard]] Result<Inventory> take_inventory(storage::Store& store);

/// The claims alone, by generation, as take_inventory() reads them.
[[nodiscard]] Result<std::vector<Claim>> list_claims(storage::Store& store);

/// Adds the claims that a store whose lists lag behind does not list yet. Of a prefix that runs write to.
[[nodiscard]] Result<void> add_unlisted_claims(storage::Store& store, Inventory& inventory);

/// The highest generation claimed, listed or not, where `known` is one.
[[nodiscard]] Result<std::int64_t> highest_generation(storage::Store& store, std::int64_t known);

}  // namespace trainyard::checkpoint
