#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/rank/group_environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::launcher {

/// What is known of a rank, for those who ask over HTTP.
struct Status {
  std::int64_t rank = 0;
  std::optional<rank::RankProgress> progress;                ///< The rank's last report.
  std::string waiting_for;                                   ///< The launcher's own: which launchers have not come.
  std::optional<rank::CheckpointRecord> checkpoint_request;  ///< The launcher's own: the one that was taken last.
};

/// contract.hpp's `/status`. A loss that is not finite is null.
[[nodiscard]] std::string make_status_document(const rank::GroupEnvironment& environment, const Status& status);

/// `/metrics`, in Prometheus' text format. Labels: namespace, job, attempt, rank.
[[nodiscard]] std::string make_metrics_document(const rank::GroupEnvironment& environment, const Status& status);

}  // namespace trainyard::launcher
