#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/interchange/catalogue.hpp"
#include "common/result.hpp"

/// Which checkpoint a command means. Pure.
namespace trainyard::cli {

/// The user's name for a checkpoint under the prefix. Both empty: the user named none.
struct Wish {
  std::optional<checkpoint::CheckpointId> id;  ///< From the checkpoint's own URI.
  std::optional<std::int64_t> step;            ///< From --step.
};

struct Choice {
  const checkpoint::Listed* listed = nullptr;  ///< Points into the catalogue.
  std::vector<std::string> notes;              ///< Warnings about the choice, for the user.
};

/// The checkpoint that `wish` names, even an unfinished or damaged one. If `wish` names none: the checkpoint that a
/// restore would pick, with a note for each newer one that it would skip. The message of ErrorKind::not_found lists the
/// steps that exist.
[[nodiscard]] Result<Choice> choose(const checkpoint::Catalogue& catalogue, const Wish& wish);

/// choose() for reading. ErrorKind::corrupt, with the reason, if the checkpoint is unfinished or damaged.
[[nodiscard]] Result<Choice> choose_readable(const checkpoint::Catalogue& catalogue, const Wish& wish);

/// choose() for verifying. If `wish` names none: the newest checkpoint that is not superseded, damaged or not.
[[nodiscard]] Result<Choice> choose_to_verify(const checkpoint::Catalogue& catalogue, const Wish& wish);

/// choose() for removing. ErrorKind::invalid if `wish` names none, or a step that several checkpoints have.
[[nodiscard]] Result<Choice> choose_to_remove(const checkpoint::Catalogue& catalogue, const Wish& wish);

}  // namespace trainyard::cli
