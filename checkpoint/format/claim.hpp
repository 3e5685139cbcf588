#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/format/layout.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// The identity of a run that saves, as its claim and its manifests hold it.
struct Identity {
  std::string job;           ///< namespace/name
  std::string job_uid;       ///< Unique to one life of the job; empty for a run by hand and an import.
  std::int64_t attempt = 1;  ///< Rises within one job_uid: of two runs, the one with the lower attempt is stale.
  /// Identifies model and training set. A job resumes another job's checkpoint unasked only if their fingerprints are
  /// equal.
  std::string fingerprint;
  bool operator==(const Identity&) const = default;
};

/// True when `a` and `b` are attempts of one life of a job.
[[nodiscard]] inline bool is_same_life(const Identity& a, const Identity& b) {
  return !a.job_uid.empty() && a.job_uid == b.job_uid;
}

/// True for two attempts of one life of a job, and for two lives with one name. If either has no UID, the fingerprints
/// must be equal too, since all runs by hand may share a name.
[[nodiscard]] inline bool is_same_job(const Identity& a, const Identity& b) {
  if (is_same_life(a, b)) return true;
  const bool is_named_alone = a.job_uid.empty() || b.job_uid.empty();
  return a.job == b.job && (!is_named_alone || a.fingerprint == b.fingerprint);
}

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
