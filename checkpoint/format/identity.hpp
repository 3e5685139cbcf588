#pragma once

#include <cstdint>
#include <string>

namespace trainyard::checkpoint {

/// Who saves. Stands in the generation's claim and in the manifest.
struct Identity {
  std::string job;           ///< namespace/name
  std::string job_uid;       ///< Unique to one life of the job; empty where nobody gives one.
  std::int64_t attempt = 1;  ///< Rises within one job_uid: a run that meets a higher one is the stale one.
  std::string fingerprint;   ///< Of model and data: automatic resume by another job needs equality.
  bool operator==(const Identity&) const = default;
};

/// Whether both are attempts of one life of a job.
[[nodiscard]] inline bool is_same_life(const Identity& a, const Identity& b) {
  return !a.job_uid.empty() && a.job_uid == b.job_uid;
}

/// Whether both are runs of one job, also of one that was deleted and applied again, so that the newer takes over. Of
/// two that nobody gave a UID the name alone says nothing: all that are started by hand are called the same.
[[nodiscard]] inline bool is_same_job(const Identity& a, const Identity& b) {
  if (is_same_life(a, b)) return true;
  const bool is_named_alone = a.job_uid.empty() || b.job_uid.empty();
  return a.job == b.job && (!is_named_alone || a.fingerprint == b.fingerprint);
}

}  // namespace trainyard::checkpoint
