#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/snapshot/history.hpp"
#include "checkpoint/snapshot/snapshot.hpp"

/// The contents and names of the files that `trainyard snapshots` writes. Pure.
namespace trainyard::cli {

/// CSV (RFC 4180, but lines end with \n): the header "step,name,over,value" and a line for each point. Numbers are
/// exact, or nan, inf, -inf. Control characters in names become '?'.
[[nodiscard]] std::string points_csv(std::span<const snapshot::Point> points);
/// As points_csv(), with the generation as the last column.
[[nodiscard]] std::string history_csv(std::span<const snapshot::History::RunPoint> entries);
/// The history as a JSON array of objects; a value that is not finite becomes null.
[[nodiscard]] nlohmann::json history_json(std::span<const snapshot::History::RunPoint> entries);

/// A file name for each of `images`, all different: the image's name and ".png". Characters other than letters, digits,
/// '.', '-' and '_' become '_'.
[[nodiscard]] std::vector<std::string> file_names(std::span<const snapshot::Image> images);

}  // namespace trainyard::cli
