#pragma once

#include <cstdint>
#include <string>

namespace trainyard::checkpoint {

/// Who saves. Stands in the generation's claim and in the manifest.
struct Identity {
  std::string job;           ///< namespace/name
  std::string job_uid;       ///< Unique to one life of the job; empty where nobody gives one: then the name decides.
  std::int64_t attempt = 1;  ///< Rises within one job_uid: a run that meets a higher one is the stale one.
  std::string fingerprint;   ///< Of model and data: automatic resume by another job needs equality.
  bool operator==(const Identity&) const = default;
};

/// Whether both are attempts of one job, so that the newer simply takes over.
[[nodiscard]] inline bool is_same_job(const Identity& a, const Identity& b) {
  return a.job == b.job || (!a.job_uid.empty() && a.job_uid == b.job_uid);
}

}  // namespace trainyard::checkpoint
