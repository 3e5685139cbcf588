#pragma once

#include <cstdint>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/plan/progress_report.hpp"

namespace trainyard::manager {

/// The answer of a rank 0 to `GET /status` (common/contract.hpp), asked at `now`. ErrorKind::corrupt when it is no JSON
/// object; conflict when it is the answer of another job or another attempt, as after an address changed hands.
[[nodiscard]] Result<plan::ProgressReport> read_progress(std::string_view answer, std::string_view job_uid,
                                                         std::int64_t attempt, Time now);

}  // namespace trainyard::manager
