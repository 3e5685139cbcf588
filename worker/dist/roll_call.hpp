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
  bool logs = false;  ///< Says now and then who is missing. Not under a launcher, which says it.
};

/// Returns once every rank has called with this store. Reports who is missing meanwhile. Errors: timeout, with the
/// missing ranks; cancelled when the launcher says that the group is broken; unavailable when the store does not
/// answer.
[[nodiscard]] Result<void> answer_roll_call(c10d::Store& store, const RollCall& call, rank::RankLink& link);

}  // namespace trainyard::dist
