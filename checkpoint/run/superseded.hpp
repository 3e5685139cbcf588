#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/layout.hpp"
#include "common/clock.hpp"

/// Which checkpoints are superseded, and which retention may remove. Pure.

namespace trainyard::checkpoint {

struct KeepBest {
  std::string metric;
  bool is_highest = true;  ///< The highest value is the best; else the lowest.
  std::int64_t count = 1;
};

/// Which checkpoints retention keeps (`checkpoint.keep`).
struct Keep {
  std::int64_t last = 3;  ///< The number of newest checkpoints to keep. At least 2 are kept whatever it says.
  std::optional<std::int64_t> every_steps;  ///< Keep the checkpoints whose step is a multiple of this number.
  /// Keep the checkpoints saved at the end of an epoch whose number, from 1, is a multiple of this number.
  std::optional<std::int64_t> every_epochs;
  std::optional<KeepBest> best;

  /// True when retention must read manifests, since a checkpoint's key says too little.
  [[nodiscard]] bool needs_facts() const { return every_epochs || best; }
};

/// The part of a checkpoint's values that retention needs.
struct Facts {
  std::optional<std::int64_t> ended_epoch;  ///< The epoch, from 1, at whose end it was saved.
  std::map<std::string, double> metrics;    ///< The last validation's.
  bool operator==(const Facts&) const = default;
};

/// Reads the facts from what training writes ("epoch": epochs done, "samples": samples done of the next epoch,
/// "metrics"). A missing or malformed value leaves its fact out.
[[nodiscard]] Facts facts_of(const nlohmann::json& values);

/// The last step at which the checkpoints and snapshots of `generation` are not superseded: the lowest step from which
/// a later generation resumed. Open claims supersede nothing. INT64_MAX if nothing is superseded; -1 if a later run
/// began afresh.
[[nodiscard]] std::int64_t last_current_step(std::int64_t generation, std::span<const Claim> claims);

/// The checkpoints of `complete` that are not superseded, newest first: those up to last_current_step() of their
/// generation. A checkpoint that a fenced run completes beyond that step never becomes a candidate.
[[nodiscard]] std::vector<CheckpointId> without_superseded(std::span<const CheckpointId> complete,
                                                           std::span<const Claim> claims);

/// How long a superseded checkpoint stays. Such a checkpoint may be good: a later run may have missed it only because
/// the store's lists lagged behind.
inline constexpr std::chrono::hours superseded_grace{1};

/// The checkpoints of `present` that `newest`, the newest generation, may remove once its checkpoint `saved` is
/// complete. All of them are of its own runs: those with its job_uid or, without a UID, those of the same name and
/// fingerprint from which it resumed, directly or not.
///
/// The result leaves out the checkpoints that `keep` names, those superseded less than `superseded_grace` ago, and
/// those of the generation of `saved` from `saved` on, which may be being written. If `keep` needs facts, a current
/// checkpoint without any in `facts` is kept too. Among equal metrics the oldest is the best: later checkpoints repeat
/// the metric of one validation.
[[nodiscard]] std::vector<CheckpointId> expired(std::span<const CheckpointId> present,
                                                std::span<const CheckpointId> complete, std::span<const Claim> claims,
                                                const Claim& newest, const CheckpointId& saved, Time now,
                                                const Keep& keep, const std::map<CheckpointId, Facts>& facts = {});

}  // namespace trainyard::checkpoint
