#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/manager/rank_exchange.hpp"
#include "operator/plan/progress_report.hpp"

namespace trainyard::manager {

/// The answer of a rank 0 to `GET /status` (api/contract.hpp), asked at `now`. ErrorKind::corrupt when it is no JSON
/// object; conflict when it is the answer of another job or another attempt, as after an address changed hands.
[[nodiscard]] Result<plan::ProgressReport> read_progress(std::string_view answer, std::string_view job_uid,
                                                         std::int64_t attempt, Time now);

/// What a rank 0 that was asked for the checkpoint `id` (POST, api/contract.hpp) makes of it: its record, or that it
/// never will. Empty: it is to be asked again.
[[nodiscard]] std::optional<api::CheckpointRequest> read_request_answer(const RankReply& reply, std::string_view id);

}  // namespace trainyard::manager
