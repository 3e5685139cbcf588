#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/layout.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/liveness.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// A claim that is there and cannot be read.
struct UnreadableClaim {
  std::int64_t generation = 0;
  std::string reason;
  bool operator==(const UnreadableClaim&) const = default;
};

/// What is under a prefix.
struct Inventory {
  std::vector<Claim> claims;                   ///< Those that could be read, by generation.
  std::vector<UnreadableClaim> unreadable;     ///< Those that could not, but for torn ones of runs that never began.
  std::set<std::int64_t> claimed;              ///< The generations that have a claim, be it one that cannot be read.
  std::int64_t generation_max = 0;             ///< Highest claimed, also by a claim that cannot be read; 0: none.
  std::optional<LastSign> newest_sign;         ///< Of the newest claim's run, where it gives signs of life.
  std::set<std::int64_t> ended;                ///< The generations whose runs have ended in order.
  std::vector<CheckpointId> present;           ///< Complete or not, in order.
  std::vector<CheckpointId> complete;          ///< Those with a manifest, in order.
  std::map<std::string, std::uint64_t> sizes;  ///< Of every object of a checkpoint, by key.
};

/// The keys of what workers have written of the checkpoint `id`, in the order in which they are to be removed: the
/// manifest first, listed or not, since the rest without it is no checkpoint. Empty where no worker has written
/// anything.
[[nodiscard]] std::vector<std::string> keys_to_remove(const Inventory& inventory, const CheckpointId& id);

/// Lists the checkpoints alone; all that is about generations stays empty.
[[nodiscard]] Result<Inventory> list_checkpoints(storage::Store& store);

/// True for the errors by which a store says that an object does not exist: not_found, and forbidden, which is S3's
/// answer where a policy lets the key list only the prefix and not the whole bucket.
[[nodiscard]] bool says_absent(ErrorKind kind);

/// The claim of `generation` in `text`. Nothing for a torn text, which only a store that `may_tear` objects leaves:
/// that run never got to write anything else. ErrorKind::corrupt for any other text that is no claim: without it nobody
/// knows which checkpoints count.
[[nodiscard]] Result<std::optional<Claim>> judge_claim(std::string_view text, std::int64_t generation, bool may_tear);

/// Lists the prefix and reads the claims. A store without conditional create may tear objects.
[[nodiscard]] Result<Inventory> take_inventory(storage::Store& store);

/// The claims alone, by generation, as take_inventory() reads them.
[[nodiscard]] Result<std::vector<Claim>> list_claims(storage::Store& store);

/// Adds the claims that a store whose lists lag behind does not list yet. Of a prefix that runs write to.
[[nodiscard]] Result<void> add_unlisted_claims(storage::Store& store, Inventory& inventory);

/// Adds the manifests and data files that a store whose lists lag behind does not list yet, as far as something names
/// them: a folder in which other files are listed, or the newest runs, whose claims say what they resumed from and
/// whose records say what they saved last. Only checkpoints that count are asked for, the newest
/// `unlisted_checkpoints_max` of those without a listed manifest.
[[nodiscard]] Result<void> add_unlisted_manifests(storage::Store& store, Inventory& inventory);
inline constexpr std::size_t unlisted_checkpoints_max = 16;

/// Adds the data files of `manifest` that are there and not listed, up to the first that is not there.
[[nodiscard]] Result<void> add_unlisted_files(storage::Store& store, const Manifest& manifest, Inventory& inventory);

/// Reads the sign of life of the newest claim's run.
[[nodiscard]] Result<void> read_newest_sign(storage::Store& store, Inventory& inventory);

/// Reads again those claims that may have changed since `inventory` was taken: new ones, open ones, and the newest,
/// which a clean-up removes with all others. True when any has changed.
[[nodiscard]] Result<bool> refresh_claims(storage::Store& store, Inventory& inventory);

/// The highest generation claimed, listed or not, where `known` is one.
[[nodiscard]] Result<std::int64_t> highest_generation(storage::Store& store, std::int64_t known);

}  // namespace trainyard::checkpoint
