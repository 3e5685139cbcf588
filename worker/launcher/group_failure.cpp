#include "worker/launcher/group_failure.hpp"

#include "common/contract.hpp"

namespace trainyard::launcher {

RankEnd end_of_others(const GroupFailure& failure) {
  if (!failure.culprit)
    return {.exit_code = failure.exit_code, .reason = failure.reason, .message = failure.message, .culprit = {}};
  return {.exit_code = contract::exit_peer_lost,
          .reason = "PeerLost",
          .message = failure.message,
          .culprit = failure.culprit};
}

}  // namespace trainyard::launcher
