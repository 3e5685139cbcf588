#include "operator/plan/deadline.hpp"

#include <algorithm>

namespace trainyard::plan {

std::optional<std::chrono::milliseconds> time_until_deadline(const resource::TrainingJob& job, Time now) {
  // A suspended job has no start time: it gets a new one when it resumes.
  if (!job.spec.active_deadline || !job.status.start_time) return std::nullopt;
  return std::max(std::chrono::milliseconds{0}, *job.status.start_time + *job.spec.active_deadline - now);
}

}  // namespace trainyard::plan
