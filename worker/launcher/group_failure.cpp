#include "worker/launcher/group_failure.hpp"

#include "api/contract.hpp"

namespace trainyard::launcher {

rank::RankEnd end_of_others(const GroupFailure& failure) {
  if (!failure.culprit)
    return {.exit_code = failure.exit_code, .reason = failure.reason, .message = failure.message, .culprit = {}};
  rank::RankEnd end{.exit_code = contract::exit_peer_lost,
                    .reason = "PeerLost",
                    .message = failure.message,
                    .culprit = failure.culprit};
  // A culprit that only fell silent has no known exit code.
  if (failure.exit_code != contract::exit_peer_lost) end.culprit_exit_code = failure.exit_code;
  return end;
}

}  // namespace trainyard::launcher
