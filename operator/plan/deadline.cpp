#include "operator/plan/deadline.hpp"

#include <algorithm>

namespace trainyard::plan {

std::optional<std::chrono::milliseconds> time_until_deadline(const api::TrainingJob& job, Time now) {
  // The clock stands still from when the suspension is asked for: pods that take their time to save fail no job. It
  // starts anew when the job resumes.
  if (job.status.phase == api::Phase::suspending || job.status.phase == api::Phase::suspended) return std::nullopt;
  if (!job.spec.active_deadline || !job.status.start_time) return std::nullopt;
  return std::max(std::chrono::milliseconds{0}, *job.status.start_time + *job.spec.active_deadline - now);
}

}  // namespace trainyard::plan
