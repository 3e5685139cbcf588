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

/// Which checkpoints stay when newer ones come.
struct Keep {
  std::int64_t last = 3;                     ///< This many of the newest. At least 2 whatever this says.
  std::optional<std::int64_t> every_steps;   ///< Those at a multiple of it.
  std::optional<std::int64_t> every_epochs;  ///< Those at the end of an epoch that is a multiple of it.
  std::optional<KeepBest> best;

  /// Whether a checkpoint's name alone does not tell.
  [[nodiscard]] bool needs_facts() const { return every_epochs || best; }
};

/// What a checkpoint's values tell of it.
struct Facts {
  std::optional<std::int64_t> ended_epoch;  ///< The epoch, from 1, that ended with it.
  std::map<std::string, double> metrics;    ///< Of the last validation.
  bool operator==(const Facts&) const = default;
};

/// Reads what training writes ("epoch": epochs done, "samples": done of the next one, "metrics"); what is not there or
/// of another form is not known.
[[nodiscard]] Facts facts_of(const nlohmann::json& values);

}  // namespace trainyard::checkpoint
