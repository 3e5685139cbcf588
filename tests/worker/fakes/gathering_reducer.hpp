#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fakes/thread_group.hpp"
#include "worker/dist/host_reducer.hpp"

namespace trainyard::fakes {

/// A reducer for ranks that are threads: each gathers the tensors of all, and adds them up in the order of the ranks.
class GatheringReducer final : public dist::HostReducer {
 public:
  GatheringReducer(std::int64_t rank, MeetingPlace& place) : communicator_{rank, place} {}

  [[nodiscard]] std::int64_t world_size() const override { return communicator_.world_size(); }

  [[nodiscard]] Result<void> sum(const at::Tensor& tensor) override {
    const auto texts = communicator_.all_gather({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()});
    if (!texts) return tl::unexpected(texts.error());
    at::Tensor total = tensor;
    total.zero_();
    for (const std::string& text : *texts) {
      const at::Tensor of_rank = at::empty_like(tensor);
      std::memcpy(of_rank.mutable_data_ptr(), text.data(), text.size());
      total.add_(of_rank);
    }
    return {};
  }

  [[nodiscard]] Result<bool> any(bool mine) override {
    return communicator_.all_gather(mine ? "yes" : "").map([](const std::vector<std::string>& texts) {
      return std::ranges::any_of(texts, [](const std::string& text) { return !text.empty(); });
    });
  }

 private:
  ThreadCommunicator communicator_;
};

}  // namespace trainyard::fakes
