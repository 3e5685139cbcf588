#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/snapshot/history.hpp"
#include "checkpoint/snapshot/snapshot.hpp"

/// What `trainyard snapshots` writes into files. Pure.
namespace trainyard::cli {

/// "step,name,over,value" and a line for each point (RFC 4180, lines end in \n). Numbers are exact, or nan, inf, -inf;
/// control characters in names become '?'.
[[nodiscard]] std::string points_csv(std::span<const snapshot::Point> points);
/// As points_csv(), with the generation as the last column.
[[nodiscard]] std::string history_csv(std::span<const snapshot::History::RunPoint> entries);
/// The history as a JSON array of objects; a value that is not finite becomes null.
[[nodiscard]] nlohmann::json history_json(std::span<const snapshot::History::RunPoint> entries);

/// A file's name for each of `images`, all different: its name where it is letters, digits, '.', '-' and '_', others
/// become '_'; and ".png".
[[nodiscard]] std::vector<std::string> file_names(std::span<const snapshot::Image> images);

}  // namespace trainyard::cli
