#include "worker/strategy/snapshot_sum.hpp"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/utils.h>

#include <utility>

#include "common/try.hpp"

namespace trainyard::strategy {
namespace {

c10::Stream current_stream(torch::Device device) {
  return c10::impl::VirtualGuardImpl{device.type()}.getStream(device);
}

}  // namespace

SnapshotSum::SnapshotSum(FlatParameters& snapshot, FlatParameters sum)
    : snapshot_{snapshot}, sum_{std::move(sum)}, host_sum_{sum_.flat()} {
  const torch::Device device = host_sum_.device();
  if (device.is_cpu()) return;
  host_sum_ = torch::empty({sum_.flat().numel()},
                           torch::dtype(sum_.flat().scalar_type()).device(torch::kCPU).pinned_memory(true));
  const c10::impl::VirtualGuardImpl driver{device.type()};
  copies_.emplace(DeviceCopies{.stream = driver.getStreamFromGlobalPool(device, /*isHighPriority=*/true),
                               .snapshot_taken = c10::Event{device.type()},
                               .sum_copied = c10::Event{device.type()}});
}

void SnapshotSum::take_snapshot() {
  const torch::NoGradGuard no_grad;
  snapshot_.pack();
  if (copies_) {
    copies_->snapshot_taken.record(current_stream(snapshot_.flat().device()));
  } else {
    host_sum_.copy_(snapshot_.flat());
  }
}

Result<void> SnapshotSum::sum(dist::HostReducer& reducer) {
  if (!copies_) return reducer.sum(host_sum_);
  const torch::NoGradGuard no_grad;
  // Not on the training thread's stream, where the copies would wait for the steps that are queued, and hold them up.
  const c10::StreamGuard on_own_stream{copies_->stream};
  copies_->snapshot_taken.block(copies_->stream);
  host_sum_.copy_(snapshot_.flat());
  TRY(reducer.sum(host_sum_));
  torch::Tensor sum = sum_.flat();
  sum.copy_(host_sum_);
  copies_->sum_copied.record(copies_->stream);
  return {};
}

void SnapshotSum::change_parameters(std::int64_t world_size) {
  const torch::NoGradGuard no_grad;
  if (copies_) copies_->sum_copied.block(current_stream(snapshot_.flat().device()));
  torch::Tensor difference = sum_.flat();
  difference.div_(world_size).sub_(snapshot_.flat());
  sum_.add();
}

}  // namespace trainyard::strategy
