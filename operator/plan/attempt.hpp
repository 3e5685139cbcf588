#pragma once

#include <cstdint>
#include <string>

#include "operator/plan/cause.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Records of attempts kept in the status.
inline constexpr std::size_t attempt_records_max = 10;

/// Makes the next attempt the current one: nothing of it is created yet, and it is bound to the job's present
/// generation.
void begin_attempt(api::TrainingJobStatus& status, const Observed& observed, Time now);

/// Completes the current attempt's record.
void end_attempt(api::TrainingJobStatus& status, const AttemptEnd& end, Time now);
/// Completes the record of an attempt that succeeded, or that ends with its job through no fault of a member.
void end_attempt(api::TrainingJobStatus& status, const std::string& message, Time now);

/// The record of the attempt before the current one; null where there is none.
[[nodiscard]] const api::AttemptRecord* previous_attempt(const api::TrainingJobStatus& status);

/// Whether the job is past its start and before its end, and not suspended: pods of its attempt are wanted.
[[nodiscard]] bool is_active(const api::TrainingJobStatus& status);
[[nodiscard]] bool is_finished(const api::TrainingJobStatus& status);

}  // namespace trainyard::plan
