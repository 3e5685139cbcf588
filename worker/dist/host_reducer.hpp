#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// Reduces tensors on the host over all ranks, for one background thread. All ranks make the same calls in the same
/// order. Errors: unavailable (a connection is lost), cancelled (the group is broken), timeout. After an error all
/// later calls fail too.
class HostReducer {
 public:
  virtual ~HostReducer() = default;
  [[nodiscard]] virtual std::int64_t world_size() const = 0;
  /// Gives `tensor` the sum over the ranks, in place, with the same bits on all ranks.
  [[nodiscard]] virtual Result<void> sum(const at::Tensor& tensor) = 0;
  /// True when `mine` is true on any rank.
  [[nodiscard]] virtual Result<bool> any(bool mine) = 0;
};

/// A reducer over `group`, which nothing else may use. Its waits send no beats, because these would hide that the
/// training thread hangs. `deadline`: of one call. `link` outlives the reducer.
[[nodiscard]] std::unique_ptr<HostReducer> make_gloo_reducer(c10::intrusive_ptr<c10d::ProcessGroupGloo> group,
                                                             std::chrono::milliseconds deadline, rank::RankLink& link);

}  // namespace trainyard::dist
