#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <utility>
#include <vector>

#include "tests/worker/fakes/late_device.hpp"

namespace trainyard::fakes {

/// A collective on tensors of the simulated device that ends when the test says so. As NCCL's, wait() only has the
/// current stream wait.
class DeviceWork final : public c10d::Work {
 public:
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  bool isCompleted() override { return is_done_; }
  [[nodiscard]] std::exception_ptr exception() const override { return failure_; }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    late_device::queue([ended = ended_] { ended.wait(); });
    return true;
  }

  void end(std::exception_ptr failure = nullptr) {
    failure_ = std::move(failure);
    is_done_ = true;
    end_.set_value();
  }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_ =
      c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get(), std::vector<c10::Device>{late_device::device()});
  std::exception_ptr failure_;
  std::atomic<bool> is_done_{false};
  std::promise<void> end_;
  std::shared_future<void> ended_ = end_.get_future().share();
};

}  // namespace trainyard::fakes
