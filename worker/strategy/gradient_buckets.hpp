#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/strategy/buckets.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// Reduces the gradients of some parameters over the ranks while a backward pass computes them. All calls from the
/// training thread.
///
/// A bucket's tensor is the gradients of its parameters one after the other, then one number per parameter that says
/// whether this rank's loss used it; both are summed by one all-reduce. A bucket is sent once it is full and all before
/// it are sent, so that every rank sends the same buckets in the same order, whatever order its gradients come in.
class GradientBuckets {
 public:
  /// `parameters` are leaves that need a gradient, on one device, in the same order on all ranks; each dense, in any
  /// memory format. Throws c10::Error for one that is not.
  GradientBuckets(std::vector<torch::Tensor> parameters, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                  const BucketLimits& limits);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Forgets the last step's gradients.
  void zero();
  /// Sends what the backward pass has left, and waits for all of it. Errors: those of `wait`; unavailable when a bucket
  /// could not be sent.
  [[nodiscard]] Result<void> finish(const WaitForWork& wait);

 private:
  struct Slot {  // where a parameter's gradient is kept
    std::size_t bucket = 0;
    std::size_t place = 0;  // in the bucket's order
    torch::Tensor view;     // of the bucket's tensor, with the parameter's shape and strides
    bool is_ready = false;  // in this step
  };
  struct Bucket {
    BucketIndices parameters;
    torch::Tensor flat;
    torch::Tensor used;  // the end of `flat`: one number per parameter
    std::size_t ready_count = 0;
    c10::intrusive_ptr<c10d::Work> work;
  };
  struct Hook {
    std::shared_ptr<torch::autograd::Node> accumulator;  // a parameter holds it only weakly
    std::uintptr_t key = 0;
  };

  void take_gradient(std::size_t parameter);
  void send_full_buckets();
  void send(Bucket& bucket);
  void take_gradients_used_elsewhere(const Bucket& bucket);

  std::vector<torch::Tensor> parameters_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  double scale_;  // 1 / world size
  torch::Tensor scale_factor_;
  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  std::size_t next_bucket_ = 0;  // the first that is not sent
  std::string send_error_;       // why a bucket could not be sent; nothing is sent after it
  std::vector<Hook> hooks_;      // by parameter
};

}  // namespace trainyard::strategy
