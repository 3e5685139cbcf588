#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>

/// A simulated device for torch. Its memory is the host's. Each of its streams has a thread that does the queued work
/// later and in order, as a GPU would. Copies to and from memory that is not pinned make the caller wait, as CUDA's do.
/// The process has two such devices: number 1, and number 0, which is a thread's device before it chooses one and which
/// nothing should use.
namespace trainyard::fakes::late_device {

[[nodiscard]] torch::Device device();
/// Begins has_context() anew.
void forget_contexts();
/// True when some thread has used device `index` in a way for which CUDA would make a context.
[[nodiscard]] bool has_context(c10::DeviceIndex index);

/// Moves parameters and buffers of `module` to the device. Module::to() refuses devices without a backend in torch.
void move_module(torch::nn::Module& module);

/// Queues `work` on the calling thread's current stream.
void queue(std::function<void()> work);
void queue_fill(const torch::Tensor& tensor, double value);
/// Multiplies `tensor` at once. For work that runs on a stream.
void scale_now(const torch::Tensor& tensor, double factor);
/// Waits until all work on the calling thread's current stream is done.
void wait();
/// Waits until the work of all streams is done, so that they keep no memory for it.
void wait_for_all();

/// Waits until each stream but the default one has done its work, or waits for another stream.
void wait_until_settled();
/// How often so far some thread has waited for the device, where it would wait for a GPU too: a copy with memory that
/// is not pinned, a value that is read, an event that is waited for. What this device does on the host to compute is
/// left out.
[[nodiscard]] int blocking_calls();
/// As blocking_calls(), of the calling thread alone.
[[nodiscard]] int blocking_calls_of_this_thread();
/// How many copies were queued so far.
[[nodiscard]] int copies();
/// Size of all pinned memory.
[[nodiscard]] std::size_t pinned_bytes();
/// Size of all tensors on the device. The queue's work keeps its tensors until it is done.
[[nodiscard]] std::size_t memory_bytes();
/// Sets how many copies succeed before one fails; negative: no copy fails.
void fail_copy_after(int copies);
/// Sets for how many tensors the device has memory before one gets none; negative: for all.
void fail_allocation_after(int allocations);

}  // namespace trainyard::fakes::late_device
