#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace trainyard::checkpoint {

struct KeepBest {
  std::string metric;
  bool is_highest = true;  ///< The highest value is the best; else the lowest.
  std::int64_t count = 1;
};

/// Which checkpoints retention keeps (`checkpoint.keep`).
struct Keep {
  std::int64_t last = 3;  ///< The number of newest checkpoints to keep. At least 2 are kept whatever it says.
  std::optional<std::int64_t> every_steps;   ///< Keep the checkpoints at a multiple of this step.
  std::optional<std::int64_t> every_epochs;  ///< Keep those at the end of an epoch that is a multiple of this one.
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

}  // namespace trainyard::checkpoint
