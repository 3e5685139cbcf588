#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/snapshot/snapshot.hpp"
#include "checkpoint/snapshot/unencoded_snapshot.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"

namespace trainyard::logs {

/// `text` with U+FFFD for each byte that is no UTF-8: a reader may refuse a file for the name of one metric.
[[nodiscard]] inline std::string to_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t bytes = utf8_character_bytes(text);
    valid += bytes == 0 ? std::string_view{"\xef\xbf\xbd"} : text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return valid;
}

/// The beginning of an attempt: `step` steps are done, by earlier attempts. Values of later steps that earlier attempts
/// wrote are superseded.
struct Start {
  std::int64_t attempt = 1;
  std::int64_t step = 0;
  std::int64_t epoch = 1;  ///< From 1.
  Time time;
};

/// The values of one line of the log, over all ranks, and the images that came since the line before.
struct Record {
  std::int64_t attempt = 1;
  snapshot::Over over = snapshot::Over::steps;
  std::int64_t step = 0;   ///< Optimizer steps that are done.
  std::int64_t epoch = 1;  ///< The epoch of the last step, from 1.
  Time time;
  std::map<std::string, double> values;  ///< May be infinite or not a number.
  std::vector<snapshot::UnencodedImage> images;
};

}  // namespace trainyard::logs
