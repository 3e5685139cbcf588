#include "tests/worker/fakes/late_device.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/core/stack.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace trainyard::fakes::late_device {
namespace {

// Not device 0, which a thread has before it chooses one.
const c10::Device the_device{c10::DeviceType::PrivateUse1, 1};
constexpr std::size_t stream_count = 4;

/// An event that happens once.
class Flag {
 public:
  void raise() {
    const std::scoped_lock lock{mutex_};
    is_raised_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return is_raised_; });
  }
  [[nodiscard]] bool is_raised() {
    const std::scoped_lock lock{mutex_};
    return is_raised_;
  }

 private:
  std::mutex mutex_;  // guards is_raised_
  std::condition_variable changed_;
  bool is_raised_ = false;
};

class StreamThread {
 public:
  void queue(std::function<void()> work) {
    const std::scoped_lock lock{mutex_};
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  void queue_wait(std::shared_ptr<Flag> flag) {
    queue([this, flag = std::move(flag)] {
      is_waiting_ = true;
      flag->wait();
      is_waiting_ = false;
    });
  }
  [[nodiscard]] bool is_settled() {
    const std::scoped_lock lock{mutex_};
    return is_waiting_ || (work_.empty() && !is_working_);
  }
  [[nodiscard]] std::shared_ptr<Flag> queue_flag() {
    auto flag = std::make_shared<Flag>();
    queue([flag] { flag->raise(); });
    return flag;
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    while (changed_.wait(lock, stop, [this] { return !work_.empty(); })) {
      const auto work = std::move(work_.front());
      work_.pop_front();
      is_working_ = true;
      lock.unlock();
      work();
      lock.lock();
      is_working_ = false;
    }
  }

  std::mutex mutex_;  // guards work_ and is_working_
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> work_;
  bool is_working_ = false;
  std::atomic<bool> is_waiting_{false};
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};
};

std::array<StreamThread, stream_count>& streams() {
  static std::array<StreamThread, stream_count> all;
  return all;
}

thread_local c10::StreamId current_stream = 0;

StreamThread& stream_of(c10::StreamId id) {
  return streams().at(static_cast<std::size_t>(id));
}

struct RecordedEvent {
  std::shared_ptr<Flag> flag;
};

thread_local c10::DeviceIndex current_device = 0;

std::atomic<int> calls_that_block{0};
thread_local int own_calls_that_block = 0;
/// True while the calling thread computes on the host for the device.
thread_local bool is_computing = false;

void note_blocking_call() {
  if (is_computing) return;
  ++calls_that_block;
  ++own_calls_that_block;
}

std::mutex contexts_mutex;  // guards device_contexts
std::set<c10::DeviceIndex> device_contexts;

void make_context(c10::DeviceIndex index) {
  const std::scoped_lock lock{contexts_mutex};
  device_contexts.insert(index);
}

/// As CUDA's guard: choosing a device makes a context on it, but for the return of a guard to a device that has none.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  [[nodiscard]] c10::DeviceType type() const override { return the_device.type(); }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device.index() != current_device) setDevice(device);
    return before;
  }
  [[nodiscard]] c10::Device getDevice() const override { return {the_device.type(), current_device}; }
  void setDevice(c10::Device device) const override {
    make_context(device.index());
    current_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  [[nodiscard]] c10::Stream getStream(c10::Device /*device*/) const override { return stream(current_stream); }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device /*device*/) const override { return stream(0); }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(c10::Device /*device*/, bool /*is_urgent*/) const override {
    static std::atomic<c10::StreamId> last{0};
    return stream(1 + last++ % static_cast<c10::StreamId>(stream_count - 1));
  }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(std::exchange(current_stream, next.id()));
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 2; }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    const c10::Device before = getDevice();
    setDevice(stream.device());
    if (*event == nullptr) *event = new RecordedEvent;
    static_cast<RecordedEvent*>(*event)->flag = stream_of(stream.id()).queue_flag();
    setDevice(before);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    stream_of(stream.id()).queue_wait(static_cast<RecordedEvent*>(event)->flag);
  }
  [[nodiscard]] bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<RecordedEvent*>(event)->flag->is_raised();
  }
  void synchronizeEvent(void* event) const override {
    note_blocking_call();
    if (event != nullptr) static_cast<RecordedEvent*>(event)->flag->wait();
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<RecordedEvent*>(event);
  }

 private:
  static c10::Stream stream(c10::StreamId id) { return c10::Stream{c10::Stream::UNSAFE, the_device, id}; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

std::mutex memory_mutex;  // guards device_memory
std::map<const void*, std::size_t> device_memory;
std::atomic<int> allocations_before_failure{-1};

void free_memory(void* memory) {
  const std::scoped_lock lock{memory_mutex};
  device_memory.erase(memory);
  std::free(memory);
}

c10::DataPtr get_memory(std::size_t bytes, c10::DeleterFnPtr give_back, c10::Device on) {
  void* const memory = bytes == 0 ? nullptr : std::malloc(bytes);
  return {memory, memory, give_back, on};
}

class DeviceAllocator final : public c10::Allocator {
 public:
  [[nodiscard]] c10::DataPtr allocate(std::size_t bytes) override {
    if (allocations_before_failure >= 0) {
      TORCH_CHECK_WITH(OutOfMemoryError, allocations_before_failure-- != 0, "CUDA out of memory");
    }
    c10::DataPtr memory = get_memory(bytes, free_memory, the_device);
    const std::scoped_lock lock{memory_mutex};
    device_memory.emplace(memory.get(), bytes);
    return memory;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

std::mutex pinned_mutex;  // guards pinned
std::map<const std::byte*, std::size_t> pinned;

void free_pinned(void* memory) {
  const std::scoped_lock lock{pinned_mutex};
  pinned.erase(static_cast<const std::byte*>(memory));
  std::free(memory);
}

bool is_pinned(const void* memory) {
  const std::scoped_lock lock{pinned_mutex};
  const auto* place = static_cast<const std::byte*>(memory);
  const auto after = pinned.upper_bound(place);
  return after != pinned.begin() && place < std::prev(after)->first + std::prev(after)->second;
}

class PinnedAllocator final : public c10::Allocator {
 public:
  [[nodiscard]] c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = get_memory(bytes, free_pinned, c10::Device{c10::DeviceType::CPU});
    const std::scoped_lock lock{pinned_mutex};
    pinned.emplace(static_cast<const std::byte*>(memory.get()), bytes);
    return memory;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  [[nodiscard]] bool isBuilt() const override { return true; }
  [[nodiscard]] bool isAvailable() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  [[nodiscard]] c10::DeviceIndex deviceCount() const override { return 2; }
  [[nodiscard]] c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  [[nodiscard]] bool isPinnedPtr(const void* memory) const override { return is_pinned(memory); }
  [[nodiscard]] c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }
};

// Views the bytes as a tensor on the host.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions{}.dtype(tensor.scalar_type()));
}

std::atomic<int> copies_queued{0};
std::atomic<int> copies_before_failure{-1};

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool is_non_blocking) {
  if (copies_before_failure >= 0)
    TORCH_CHECK(copies_before_failure-- != 0, "CUDA error: uncorrectable ECC error encountered");
  queue([from, to] {
    const c10::InferenceMode inference;  // Either may be of that mode.
    on_host(to).copy_(on_host(from));
  });
  ++copies_queued;
  const auto must_wait = [&](const at::Tensor& tensor) {
    return tensor.is_cpu() && !(is_non_blocking && is_pinned(tensor.const_data_ptr()));
  };
  if (must_wait(from) || must_wait(to)) {
    note_blocking_call();
    wait();
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes())
    to.unsafeGetTensorImpl()->shallow_copy_from(at::empty(from.sizes(), to.options()).getIntrusivePtr());
  return copy_from(from, to, /*is_non_blocking=*/false);
}

DeviceAllocator& device_allocator() {
  static DeviceAllocator allocator;
  return allocator;
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> /*device*/, std::optional<bool> /*pin_memory*/,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &device_allocator(), c10::DispatchKeySet{c10::DispatchKey::PrivateUse1},
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                         std::optional<bool> /*pin_memory*/) {
  return at::detail::empty_strided_generic(size, stride, &device_allocator(),
                                           c10::DispatchKeySet{c10::DispatchKey::PrivateUse1},
                                           c10::dtype_or_default(dtype));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
}

/// As on a GPU, operations accept tensors of the host only if they are scalars.
void check_one_device(const c10::OperatorHandle& operation, const torch::jit::Stack& stack) {
  bool has_device = false;
  bool has_host = false;
  const auto look_at = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    has_device = has_device || tensor.device() == the_device;
    has_host = has_host || (tensor.is_cpu() && tensor.dim() > 0);
  };
  const std::size_t count = operation.schema().arguments().size();
  for (const c10::IValue& value : torch::jit::last(stack, count)) {
    if (value.isTensor()) look_at(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) look_at(tensor);
    }
  }
  TORCH_CHECK(!(has_device && has_host), "Expected all tensors of ", operation.schema().name(),
              " to be on the same device, but some are on the CPU");
}

/// As on a GPU, a fused optimizer's kernel accepts weights of one type.
void check_one_type(const c10::OperatorHandle& operation, const torch::jit::Stack& stack) {
  if (!operation.schema().name().starts_with("aten::_fused_")) return;
  const std::vector<at::Tensor> weights =
      torch::jit::peek(stack, 0, operation.schema().arguments().size()).toTensorVector();
  TORCH_CHECK(
      std::ranges::all_of(weights, [&](const at::Tensor& one) { return one.dtype() == weights.front().dtype(); }),
      "params must have same dtype");
}

/// True for operations whose results' values or sizes the host needs.
bool reads_values(const c10::OperatorHandle& operation) {
  constexpr std::array names{"aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::masked_select",
                             "aten::_unique2"};
  return std::ranges::find(names, operation.schema().name()) != names.end();
}

void compute_on_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  check_one_device(operation, *stack);
  check_one_type(operation, *stack);
  if (reads_values(operation)) note_blocking_call();
  const bool was_computing = std::exchange(is_computing, true);
  at::native::cpu_fallback(operation, stack);
  is_computing = was_computing;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
}

}  // namespace

torch::Device device() {
  static const bool is_known = [] {
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    c10::register_privateuse1_backend("late");
    return true;
  }();
  static_cast<void>(is_known);
  return the_device;
}

void move_module(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const torch::Tensor& tensor : tensors)
      tensor.unsafeGetTensorImpl()->shallow_copy_from(tensor.detach().to(device()).getIntrusivePtr());
  }
}

void queue(std::function<void()> work) {
  stream_of(current_stream).queue(std::move(work));
}

void queue_fill(const torch::Tensor& tensor, double value) {
  queue([tensor, value] { on_host(tensor).fill_(value); });
}

void scale_now(const torch::Tensor& tensor, double factor) {
  on_host(tensor).mul_(factor);
}

void wait() {
  stream_of(current_stream).queue_flag()->wait();
}

void wait_for_all() {
  for (StreamThread& stream : streams()) stream.queue_flag()->wait();
}

void wait_until_settled() {
  const auto is_settled = [](StreamThread& stream) { return stream.is_settled(); };
  while (!std::all_of(std::next(streams().begin()), streams().end(), is_settled)) std::this_thread::yield();
}

int blocking_calls() {
  return calls_that_block;
}

int blocking_calls_of_this_thread() {
  return own_calls_that_block;
}

int copies() {
  return copies_queued;
}

void forget_contexts() {
  const std::scoped_lock lock{contexts_mutex};
  device_contexts.clear();
}

bool has_context(c10::DeviceIndex index) {
  const std::scoped_lock lock{contexts_mutex};
  return device_contexts.contains(index);
}

std::size_t pinned_bytes() {
  const std::scoped_lock lock{pinned_mutex};
  std::size_t bytes = 0;
  for (const auto& [place, size] : pinned) bytes += size;
  return bytes;
}

std::size_t memory_bytes() {
  const std::scoped_lock lock{memory_mutex};
  std::size_t bytes = 0;
  for (const auto& [place, size] : device_memory) bytes += size;
  return bytes;
}

void fail_copy_after(int copies) {
  copies_before_failure = copies;
}

void fail_allocation_after(int allocations) {
  allocations_before_failure = allocations;
}

}  // namespace trainyard::fakes::late_device
