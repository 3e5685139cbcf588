#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/rank/group_environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::launcher {

/// The content of /status and /metrics.
struct Status {
  std::int64_t rank = 0;
  std::optional<rank::RankProgress> progress;  ///< The rank's last report.
  std::string waiting_for;                     ///< The launchers that have not connected, as this launcher knows.
  std::optional<rank::RequestRecord> checkpoint_request;  ///< The last request that this launcher accepted.
};

/// contract.hpp's /status. A loss that is not finite is null.
[[nodiscard]] std::string make_status_document(const rank::GroupEnvironment& environment, const Status& status);

/// The text of /metrics, in Prometheus' format. Labels: namespace, job, attempt, rank.
[[nodiscard]] std::string make_metrics_document(const rank::GroupEnvironment& environment, const Status& status);

}  // namespace trainyard::launcher
