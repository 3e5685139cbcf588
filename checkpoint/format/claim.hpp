#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/format/identity.hpp"
#include "checkpoint/format/layout.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// That one run writes under the prefix from now on. A claim of a higher number fences all lower ones: what they write
/// beyond `resumed_from`'s step never counts.
struct Claim {
  std::int64_t generation = 0;  ///< From 1.
  Identity identity;
  std::optional<CheckpointId> resumed_from;  ///< Nothing: it began afresh, or is open.
  Time time;
  std::string nonce;      ///< Tells our own claim from another's of the same number.
  std::string process{};  ///< this_process() of a run by hand, which gives signs of life. Empty for other runs.
  bool is_open = false;   ///< What it resumes from is not settled: it fences, and takes the count of nothing yet.
  bool operator==(const Claim&) const = default;
};

[[nodiscard]] std::string to_text(const Claim& claim);
/// ErrorKind::corrupt for a text that to_text() did not write.
[[nodiscard]] Result<Claim> parse_claim(std::string_view text);

}  // namespace trainyard::checkpoint
