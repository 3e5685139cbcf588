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

/// The right of one run to write under the prefix. A claim fences the claims of all lower generations: what their runs
/// write beyond the step of `resumed_from` is superseded.
struct Claim {
  std::int64_t generation = 0;  ///< From 1.
  Identity identity;
  std::optional<CheckpointId> resumed_from;  ///< Nothing: the run began afresh, or the claim is open.
  Time time;
  std::string nonce;      ///< Tells two claims of one generation apart.
  std::string process{};  ///< this_process() of a run by hand, which gives signs of life. Empty for other runs.
  bool is_open = false;   ///< The claim does not say yet what its run resumes from: it fences, and supersedes nothing.
  bool operator==(const Claim&) const = default;
};

[[nodiscard]] std::string to_text(const Claim& claim);
/// ErrorKind::corrupt for a text that to_text() did not write.
[[nodiscard]] Result<Claim> parse_claim(std::string_view text);

}  // namespace trainyard::checkpoint
