#include "cli/log_step.hpp"

namespace trainyard::cli {

using api::Phase;

bool is_at_rest(Phase phase) {
  return phase == Phase::succeeded || phase == Phase::failed || phase == Phase::suspended || phase == Phase::deleting;
}

LogStep next_log_step(const api::TrainingJobStatus& status, std::optional<std::int64_t> wanted, std::int64_t printed,
                      bool is_following) {
  if (wanted.value_or(status.attempt) > printed) return LogStep::print;
  const bool has_all = printed > 0 && wanted.has_value();
  return !is_following || has_all || is_at_rest(status.phase) ? LogStep::end : LogStep::wait;
}

}  // namespace trainyard::cli
