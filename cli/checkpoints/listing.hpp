#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/interchange/catalogue.hpp"
#include "checkpoint/interchange/verify.hpp"
#include "storage/store.hpp"

/// The output of `trainyard checkpoints ls`, `show` and `verify`. Pure: `store` only makes URIs.
namespace trainyard::cli {

/// The checkpoints as a table, the newest last.
[[nodiscard]] std::string listing_text(const checkpoint::Catalogue& catalogue);
/// The checkpoints as a JSON array of objects, with exact numbers.
[[nodiscard]] nlohmann::json listing_json(const checkpoint::Catalogue& catalogue, const storage::Store& store);

/// One checkpoint for people: what its manifest holds, or why it has none that can be read.
[[nodiscard]] std::string description_text(const checkpoint::Listed& listed, const storage::Store& store);
[[nodiscard]] nlohmann::json description_json(const checkpoint::Listed& listed, const storage::Store& store);

/// The result of verify() for the checkpoint `id`.
[[nodiscard]] nlohmann::json verification_json(const checkpoint::CheckpointId& id,
                                               const checkpoint::Verification& verification,
                                               const storage::Store& store);

}  // namespace trainyard::cli
