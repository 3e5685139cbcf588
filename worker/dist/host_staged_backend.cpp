#include "worker/dist/host_staged_backend.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/dist/watched_wait.hpp"

namespace trainyard::dist {
namespace {

using c10::ivalue::Future;
using Tensors = std::vector<at::Tensor>;
using Work = c10::intrusive_ptr<c10d::Work>;

at::Tensor room_on_host(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().device(c10::kCPU).requires_grad(false));
}

Tensors rooms_on_host(const Tensors& tensors) {
  Tensors rooms;
  for (const at::Tensor& tensor : tensors) rooms.push_back(room_on_host(tensor));
  return rooms;
}

at::Tensor copy_on_host(const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  return room_on_host(tensor).copy_(tensor);
}

Tensors copies_on_host(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(copy_on_host(tensor));
  return copies;
}

/// Waits until the results are there, for any stream.
void copy_back(const Tensors& from, const Tensors& to) {
  // The collective may have been called in this mode, whose tensors nobody outside of it may change.
  const c10::InferenceMode inference;
  for (std::size_t i = 0; i < from.size(); ++i) {
    // variable_data(): autograd does not take the result of a collective for a change of what a backward pass needs.
    to[i].variable_data().copy_(from[i]);
    // copy_() does not wait for the kernel by which it fills a strided tensor.
    mark_queue(to[i].device()).synchronize();
  }
}

/// Ends once the results of `exchange`, which are in `from`, are in `to`. They are copied on the thread on which
/// `exchange` ends. `from` is empty where `exchange` leaves this rank's tensors as they are.
class StagedWork final : public c10d::Work {
 public:
  StagedWork(const c10::intrusive_ptr<c10d::Work>& exchange, Tensors from, Tensors to)
      : state_{std::make_shared<State>()} {
    state_->to = to;
    exchange->getFuture()->addCallback([state = state_, from = std::move(from)](Future& exchanged) {
      if (exchanged.hasError()) return state->done->setError(exchanged.exception_ptr());
      state->is_exchanged = true;
      try {
        copy_back(from, state->to);
      } catch (const std::exception&) {
        return state->done->setError(std::current_exception());
      }
      state->done->markCompleted(c10::IValue{state->to});
    });
  }

  [[nodiscard]] bool is_exchanged() const { return state_->is_exchanged; }
  bool isCompleted() override { return state_->done->completed(); }
  bool isSuccess() const override { return state_->done->completed() && !state_->done->hasError(); }
  std::exception_ptr exception() const override {
    return state_->done->completed() && state_->done->hasError() ? state_->done->exception_ptr() : nullptr;
  }
  Tensors result() override { return state_->to; }
  void synchronize() override { state_->done->waitAndThrow(); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    state_->done->waitAndThrow();
    return true;
  }
  c10::intrusive_ptr<Future> getFuture() override { return state_->done; }

 private:
  /// Shared with the callback, which may run after the Work was given up.
  struct State {
    Tensors to;
    std::atomic<bool> is_exchanged = false;
    c10::intrusive_ptr<Future> done = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
  };
  std::shared_ptr<State> state_;
};

Work with_results(const Work& exchange, Tensors from, Tensors to) {
  return c10::make_intrusive<StagedWork>(exchange, std::move(from), std::move(to));
}

class HostStagedBackend final : public c10d::Backend {
 public:
  explicit HostStagedBackend(c10::intrusive_ptr<c10d::Backend> host)
      : Backend{host->getRank(), host->getSize()}, host_{std::move(host)} {}

  const std::string getBackendName() const override { return host_->getBackendName() + " through the host's memory"; }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const bool is_root = options.rootRank == getRank();
    Tensors copies = is_root ? copies_on_host(tensors) : rooms_on_host(tensors);
    return with_results(host_->broadcast(copies, options), is_root ? Tensors{} : copies, tensors);
  }

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    Tensors copies = copies_on_host(tensors);
    return with_results(host_->allreduce(copies, options), copies, tensors);
  }

  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    Tensors copies = copies_on_host(tensors);
    const bool is_root = options.rootRank == getRank();
    return with_results(host_->reduce(copies, options), is_root ? copies : Tensors{}, tensors);
  }

  Work allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    std::vector<Tensors> gathered;
    Tensors from;
    Tensors to;
    for (const Tensors& of_input : outputs) {
      gathered.push_back(rooms_on_host(of_input));
      from.insert(from.end(), gathered.back().begin(), gathered.back().end());
      to.insert(to.end(), of_input.begin(), of_input.end());
    }
    Tensors copies = copies_on_host(inputs);
    return with_results(host_->allgather(gathered, copies, options), std::move(from), std::move(to));
  }

  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    at::Tensor gathered = room_on_host(output);
    at::Tensor copy = copy_on_host(input);
    return with_results(host_->_allgather_base(gathered, copy, options), {gathered}, {output});
  }

  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                     std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override {
    at::Tensor received = room_on_host(output);
    at::Tensor copy = copy_on_host(input);
    return with_results(host_->alltoall_base(received, copy, output_splits, input_splits, options), {received},
                        {output});
  }

  Work barrier(const c10d::BarrierOptions& options) override { return host_->barrier(options); }

 private:
  c10::intrusive_ptr<c10d::Backend> host_;
};

}  // namespace

bool waits_for_own_device_alone(const c10d::Work& work) {
  const auto* staged = dynamic_cast<const StagedWork*>(&work);
  return staged != nullptr && staged->is_exchanged();
}

c10::intrusive_ptr<c10d::Backend> make_host_staged_backend(c10::intrusive_ptr<c10d::Backend> host) {
  return c10::make_intrusive<HostStagedBackend>(std::move(host));
}

}  // namespace trainyard::dist
