#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace trainyard::fakes {

/// A group that cannot queue a collective.
class BrokenGroup final : public c10d::ProcessGroup {
 public:
  explicit BrokenGroup(std::exception_ptr failure) : ProcessGroup{0, 2}, failure_{std::move(failure)} {}
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    std::rethrow_exception(failure_);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::BroadcastOptions& /*options*/) override {
    std::rethrow_exception(failure_);
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& /*received*/,
                                           std::vector<at::Tensor>& /*sent*/,
                                           const c10d::AllgatherOptions& /*options*/) override {
    std::rethrow_exception(failure_);
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& /*received*/, at::Tensor& /*sent*/,
                                               std::vector<std::int64_t>& /*received_sizes*/,
                                               std::vector<std::int64_t>& /*sent_sizes*/,
                                               const c10d::AllToAllOptions& /*options*/) override {
    std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace trainyard::fakes
