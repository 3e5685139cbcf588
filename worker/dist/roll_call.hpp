#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

struct RollCall {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::chrono::milliseconds deadline{std::chrono::minutes{10}};
  bool logs = false;  ///< Logs the missing ranks from time to time. Off under a launcher, which logs them itself.
};

/// For the start only; the launcher's Supervisor finds ranks that hang later. Returns once every rank has called with
/// this store. Reports the missing ranks meanwhile. Errors: timeout, which names the missing ranks; cancelled when the
/// group is broken or this rank was asked to stop; unavailable when the store does not answer.
[[nodiscard]] Result<void> answer_roll_call(c10d::Store& store, const RollCall& call, rank::RankLink& link);

}  // namespace trainyard::dist
