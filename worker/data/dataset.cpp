#include "worker/data/dataset.hpp"

namespace trainyard {

Batch Batch::on(torch::Device device) const {
  const auto moved = [&](const torch::Tensor& tensor) {
    // A copy from pinned memory need not be waited for: its users are queued after it on the stream.
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/tensor.is_cpu() && tensor.is_pinned()) : tensor;
  };
  return {.inputs = moved(inputs), .targets = moved(targets), .ids = ids};
}

}  // namespace trainyard
