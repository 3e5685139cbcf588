#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/interchange/catalogue.hpp"
#include "common/result.hpp"

/// Which checkpoint a command means. Pure.
namespace trainyard::cli {

/// What a person said of it, beside the prefix.
struct Wish {
  std::optional<checkpoint::CheckpointId> id;  ///< By the checkpoint's own URI.
  std::optional<std::int64_t> step;            ///< By --step.
};

struct Choice {
  const checkpoint::Listed* listed = nullptr;  ///< Of the catalogue.
  std::vector<std::string> notes;              ///< What a person should know of it.
};

/// The one that is named; without a name what a restore would pick, with a note for each newer one that it skips.
/// ErrorKind::not_found says what is there. Unfinished and damaged ones are chosen when named.
[[nodiscard]] Result<Choice> choose(const checkpoint::Catalogue& catalogue, const Wish& wish);

/// choose() for reading: ErrorKind::corrupt for one that is unfinished or damaged, with the reason.
[[nodiscard]] Result<Choice> choose_readable(const checkpoint::Catalogue& catalogue, const Wish& wish);

/// choose() for verifying: without a name the newest that counts, damaged or not.
[[nodiscard]] Result<Choice> choose_to_verify(const checkpoint::Catalogue& catalogue, const Wish& wish);

/// choose() for removing. ErrorKind::invalid where none is named, or by a step of which there are several.
[[nodiscard]] Result<Choice> choose_to_remove(const checkpoint::Catalogue& catalogue, const Wish& wish);

}  // namespace trainyard::cli
