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

/// A claim that exists and cannot be read.
struct UnreadableClaim {
  std::int64_t generation = 0;
  std::string reason;
  bool operator==(const UnreadableClaim&) const = default;
};

/// The claims and checkpoints under a prefix.
struct Inventory {
  std::vector<Claim> claims;  ///< The claims that could be read, by generation.
  /// The claims that could not be read. A torn claim in a store that may tear objects is left out: its run wrote
  /// nothing else.
  std::vector<UnreadableClaim> unreadable;
  std::set<std::int64_t> claimed;              ///< The generations with a claim, readable or not.
  std::int64_t generation_max = 0;             ///< The highest of `claimed`; 0: none.
  std::optional<Liveness> newest_liveness;     ///< The newest claim's run's, if it is a run by hand.
  std::set<std::int64_t> ended;                ///< The generations whose runs have ended in order.
  std::vector<CheckpointId> present;           ///< All checkpoints, complete or not, in order.
  std::vector<CheckpointId> complete;          ///< The checkpoints with a manifest, in order.
  std::map<std::string, std::uint64_t> sizes;  ///< The size of every object in a checkpoint's folder, by key.
};

/// The keys that workers have written for the checkpoint `id`, in the order of their removal. The manifest's key is
/// first, listed or not: without the manifest the rest is no checkpoint. Empty where no worker has written anything.
[[nodiscard]] std::vector<std::string> keys_to_remove(const Inventory& inventory, const CheckpointId& id);

/// Lists the checkpoints alone, without claims, ends and signs of life.
[[nodiscard]] Result<Inventory> list_checkpoints(storage::Store& store);

/// True for the errors by which a store says that an object does not exist: not_found, and forbidden. S3 answers
/// forbidden where a policy lets the key list only the prefix and not the whole bucket.
[[nodiscard]] bool says_absent(ErrorKind kind);

/// The claim of `generation` in `text`. Nothing for a torn text if the store `may_tear` objects: that run wrote nothing
/// else. ErrorKind::corrupt for any other text that is no claim: without the claim nobody knows which checkpoints are
/// superseded.
[[nodiscard]] Result<std::optional<Claim>> parse_listed_claim(std::string_view text, std::int64_t generation,
                                                              bool may_tear);

/// Lists the checkpoints, and reads the claims.
[[nodiscard]] Result<Inventory> take_inventory(storage::Store& store);

/// The claims alone, by generation.
[[nodiscard]] Result<std::vector<Claim>> list_claims(storage::Store& store);

/// Adds the claims that the store does not list yet because its lists lag behind.
[[nodiscard]] Result<void> add_unlisted_claims(storage::Store& store, Inventory& inventory);

/// Adds the manifests that the store does not list yet because its lists lag behind. It asks for a manifest if another
/// file of its folder is listed, or if the claim or the record of one of the newest runs names its checkpoint. It
/// leaves out superseded checkpoints, and asks for the newest `unlisted_checkpoints_max` at most.
[[nodiscard]] Result<void> add_unlisted_manifests(storage::Store& store, Inventory& inventory);
inline constexpr std::size_t unlisted_checkpoints_max = 16;

/// Adds the data files of `manifest` that exist and are not listed, up to the first that does not exist.
[[nodiscard]] Result<void> add_unlisted_files(storage::Store& store, const Manifest& manifest, Inventory& inventory);

/// Sets `newest_liveness`.
[[nodiscard]] Result<void> read_newest_liveness(storage::Store& store, Inventory& inventory);

/// Reads the open claims again: their runs may have closed them and saved since.
[[nodiscard]] Result<void> refresh_open_claims(storage::Store& store, Inventory& inventory);

/// Reads the claims again that may have changed: new ones, open ones, and the newest, which a clean-up removes with all
/// others. True when any has changed.
[[nodiscard]] Result<bool> refresh_claims(storage::Store& store, Inventory& inventory);

/// The highest claimed generation, listed or not. `known` is a generation that is claimed.
[[nodiscard]] Result<std::int64_t> highest_generation(storage::Store& store, std::int64_t known);

/// Success when `manifest` is the manifest of checkpoint `id`, and all its data files exist in their sizes.
/// ErrorKind::corrupt names the first fault.
[[nodiscard]] Result<void> check_files(const Inventory& inventory, const Manifest& manifest, const CheckpointId& id);

}  // namespace trainyard::checkpoint
