#include "worker/launcher/peer_group.hpp"

#include <fmt/format.h>

#include "api/contract.hpp"

namespace trainyard::launcher {

std::string member_text(const Hello& hello) {
  if (hello.rank_count == 1) return fmt::format("rank {}", hello.first_rank);
  return fmt::format("ranks {} to {}", hello.first_rank, hello.first_rank + hello.rank_count - 1);
}

std::string group_text(const Hello& hello) {
  const std::string uid = hello.job_uid.empty() ? "" : fmt::format(" ({})", hello.job_uid);
  return fmt::format("job {}{}, attempt {}", hello.job, uid, hello.attempt);
}

GroupFailure rendezvous_failure(const std::string& waiting_for) {
  return {.culprit = {},
          .exit_code = contract::exit_rendezvous,
          .reason = "Rendezvous",
          .message = "the group did not come together in time: waiting for " + waiting_for};
}

}  // namespace trainyard::launcher
