#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>

/// A device for torch that this machine need not have: its memory is the host's, and what is queued on one of its
/// streams a thread of that stream does later, in order, as a GPU would. Copies between it and memory that is not
/// pinned make the caller wait, as CUDA's do. It is the whole process's.
namespace trainyard::fakes::late_device {

[[nodiscard]] torch::Device device();

/// Moves parameters and buffers of `module` there. Module::to() refuses a device that torch has no backend of its own
/// for.
void move_module(torch::nn::Module& module);

/// On the calling thread's current stream.
void queue(std::function<void()> work);
void queue_fill(const torch::Tensor& tensor, double value);
/// Until all that is queued there is done.
void wait();
/// Until all streams have done what is queued on them, and so hold on to no memory for it.
void wait_for_all();

/// Until each stream but the default one has done what is queued on it, or waits for another stream.
void wait_until_settled();
/// How many copies were ever queued.
[[nodiscard]] int copies();
/// How much pinned memory there is.
[[nodiscard]] std::size_t pinned_bytes();
/// How many more copies are made before one fails; negative: none does.
void fail_copy_after(int copies);

}  // namespace trainyard::fakes::late_device
