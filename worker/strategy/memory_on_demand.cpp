#include "worker/strategy/memory_on_demand.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "worker/strategy/freed_memory.hpp"

namespace trainyard::strategy {

struct MemoryOnDemand::Slot {
  MemoryProvider* provider = nullptr;
  std::size_t place = 0;
  c10::DataPtr memory;  // null: none
};

/// The arguments of one operator that have memory on demand.
struct OperatorCall {
  using Slot = MemoryOnDemand::Slot;

  /// The context of a storage's memory. The storage may outlive the MemoryOnDemand.
  using Context = std::shared_ptr<Slot>;

  static void release(void* context) { delete static_cast<Context*>(context); }

  void add(const torch::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    const c10::DataPtr& memory = tensor.storage().data_ptr();
    if (memory.get_deleter() != &release) return;
    const Slot& slot = **static_cast<Context*>(memory.get_context());
    provider = slot.provider;
    lacks_memory = lacks_memory || !slot.memory;
    if (std::ranges::find(places, slot.place) == places.end()) places.push_back(slot.place);
  }

  void add(const c10::IValue& argument) {
    if (argument.isTensor()) {
      add(argument.toTensor());
    } else if (argument.isList()) {
      for (const c10::IValue& element : argument.toListRef()) {
        if (element.isTensor()) add(element.toTensor());
      }
    }
  }

  MemoryProvider* provider = nullptr;
  std::vector<std::size_t> places;
  bool lacks_memory = false;
};

namespace {

// It comes before autograd's and autocast's keys. Torch has it for tests of such fallbacks, and registers nothing
// there.
constexpr auto asking_key = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local int asking_count = 0;  // the OperatorsAsk of the thread

void ask_and_call(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  // The kernel's own operators use what is provided for this one.
  const NoOperatorAsks none_nested;
  OperatorCall call;
  for (const c10::IValue& argument : torch::jit::last(*stack, operation.schema().arguments().size()))
    call.add(argument);
  if (call.lacks_memory && call.provider != nullptr) call.provider->provide(call.places);
  operation.callBoxed(stack);
}

/// Registers the key for the process, once.
void register_asking() {
  static const auto libraries = [] {
    std::vector<torch::Library> registered;
    registered.emplace_back(torch::Library::IMPL, "_", asking_key, __FILE__, __LINE__);
    registered.back().fallback(torch::CppFunction::makeFromBoxedFunction<&ask_and_call>());
    registered.emplace_back(torch::Library::IMPL, "aten", asking_key, __FILE__, __LINE__);
    // It runs the backward pass, whose operators have to ask.
    registered.back().impl("_backward", torch::CppFunction::makeFallthrough());
    return registered;
  }();
}

}  // namespace

MemoryOnDemand::MemoryOnDemand(const torch::Tensor& tensor, MemoryProvider& provider, std::size_t place)
    : storage_{tensor.storage()}, slot_{std::make_shared<Slot>()} {
  register_asking();
  slot_->provider = &provider;
  slot_->place = place;
  slot_->memory = set(storage_.mutable_data());
}

MemoryOnDemand::~MemoryOnDemand() {
  slot_->provider = nullptr;
  take_away();
}

bool MemoryOnDemand::is_there() const {
  return static_cast<bool>(slot_->memory);
}

void MemoryOnDemand::give() {
  if (is_there()) return;
  slot_->memory = allocate_returned(storage_.nbytes(), storage_.device_type());
  static_cast<void>(set(slot_->memory.mutable_get()));
}

void MemoryOnDemand::take_away() {
  if (!is_there()) return;
  static_cast<void>(set(nullptr));
  slot_->memory.clear();
}

/// Returns what the storage had before.
c10::DataPtr MemoryOnDemand::set(void* data) {
  return storage_.set_data_ptr({data, new OperatorCall::Context{slot_}, &OperatorCall::release, storage_.device()});
}

OperatorsAsk::OperatorsAsk() {
  if (asking_count++ == 0) c10::impl::tls_set_dispatch_key_included(asking_key, true);
}

OperatorsAsk::~OperatorsAsk() {
  if (--asking_count == 0) c10::impl::tls_set_dispatch_key_included(asking_key, false);
}

NoOperatorAsks::NoOperatorAsks() : guard_{asking_key} {}

}  // namespace trainyard::strategy
