#include "worker/dist/host_staged_backend.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

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

void copy_back(const Tensors& from, const Tensors& to) {
  const c10::NoGradGuard no_grad;
  // variable_data(): autograd does not take the result of a collective for a change of what a backward pass needs.
  for (std::size_t i = 0; i < to.size(); ++i) to[i].variable_data().copy_(from[i]);
}

/// The work that ends once the results of `work`, which are in `from`, are in `to`. The copy runs on the thread on
/// which `work` ends, and waits for the device.
Work with_results(const Work& work, Tensors from, Tensors to) {
  auto done = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
  work->getFuture()->addCallback([done, from = std::move(from), to = std::move(to)](Future& exchanged) {
    if (exchanged.hasError()) return done->setError(exchanged.exception_ptr());
    try {
      copy_back(from, to);
    } catch (const std::exception&) {
      return done->setError(std::current_exception());
    }
    done->markCompleted(c10::IValue{to});
  });
  return c10d::Work::create_from_future(done);
}

class HostStagedBackend final : public c10d::Backend {
 public:
  explicit HostStagedBackend(c10::intrusive_ptr<c10d::Backend> host)
      : Backend{host->getRank(), host->getSize()}, host_{std::move(host)} {}

  const std::string getBackendName() const override { return host_->getBackendName() + " through the host's memory"; }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    Tensors copies = copies_on_host(tensors);
    return with_results(host_->broadcast(copies, options), copies, tensors);
  }

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    Tensors copies = copies_on_host(tensors);
    return with_results(host_->allreduce(copies, options), copies, tensors);
  }

  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    Tensors copies = copies_on_host(tensors);
    return with_results(host_->reduce(copies, options), copies, tensors);
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

c10::intrusive_ptr<c10d::Backend> make_host_staged_backend(c10::intrusive_ptr<c10d::Backend> host) {
  return c10::make_intrusive<HostStagedBackend>(std::move(host));
}

}  // namespace trainyard::dist
