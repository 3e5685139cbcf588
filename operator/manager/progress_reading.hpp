#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/manager/rank_exchange.hpp"
#include "operator/plan/progress_report.hpp"

namespace trainyard::manager {

/// Reads rank 0's answer to `GET /status` (api/contract.hpp), asked at `now`. ErrorKind::corrupt when it is not a JSON
/// object; conflict when another job or another attempt answered, as when its pod has taken over the address.
[[nodiscard]] Result<plan::ProgressReport> read_progress(std::string_view answer, std::string_view job_uid,
                                                         std::int64_t attempt, Time now);

/// Reads rank 0's reply to the request `id` (POST /checkpoint, api/contract.hpp): its record of the request, or a
/// failed one if it refused. Empty if the request is to be sent again.
[[nodiscard]] std::optional<api::CheckpointRequest> read_request_answer(const RankReply& reply, std::string_view id);

}  // namespace trainyard::manager
