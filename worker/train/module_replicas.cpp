#include "worker/train/module_replicas.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/ThreadLocalState.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "include/trainyard/options.hpp"
#include "worker/data/sample_random.hpp"
#include "worker/train/named_tensors.hpp"

namespace trainyard::train {
namespace {

/// Parameters, then buffers.
NamedTensors tensors_of(const Module& module) {
  NamedTensors tensors = named_parameters(module);
  std::ranges::move(named_buffers(module), std::back_inserter(tensors));
  return tensors;
}

std::string described(const std::pair<std::string, torch::Tensor>& named) {
  return fmt::format("{} {} [{}]", named.first, c10::toString(named.second.scalar_type()),
                     fmt::join(named.second.sizes(), ", "));
}

[[noreturn]] void refuse_instances(const std::string& one, const std::string& other) {
  throw InvalidJob{
      fmt::format("training.strategy.name: dp and ddp2 make an instance of the model for each device, and two are not "
                  "alike: one has {}, the other {}; the model's constructor must make the same layers each time",
                  one, other)};
}

void check_equal(const NamedTensors& trained, const NamedTensors& other) {
  for (std::size_t place = 0; place < std::max(trained.size(), other.size()); ++place) {
    const std::string expected = place < trained.size() ? described(trained[place]) : "nothing";
    const std::string found = place < other.size() ? described(other[place]) : "nothing";
    if (expected != found) refuse_instances(expected, found);
  }
}

void check_memory(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) continue;
    throw InvalidJob{
        fmt::format("training.strategy.name: dp and ddp2 cannot copy {} to other instances of the model, since its "
                    "elements share memory, as after expand(): register a contiguous() copy of it",
                    name)};
  }
}

std::vector<torch::nn::Module*> parts_of(Module& module) {
  std::vector<torch::nn::Module*> parts{&module};
  for (const auto& part : module.modules(/*include_self=*/false)) parts.push_back(part.get());
  return parts;
}

/// The parts of a batch that `count` replicas get, as torch.chunk makes them. To autograd they are no views of one
/// tensor: a replica may change its part in place.
std::vector<Batch> divide(const Batch& batch, std::size_t count) {
  const auto replicas = static_cast<std::int64_t>(count);
  const std::int64_t size = std::max<std::int64_t>((batch.size() + replicas - 1) / replicas, 1);
  std::vector<Batch> parts;
  const auto own = [](const torch::Tensor& tensor) { return tensor.defined() ? tensor.variable_data() : tensor; };
  for (std::int64_t begin = 0; begin == 0 || begin < batch.size(); begin += size) {
    const Batch part = batch.samples(begin, std::min(begin + size, batch.size()));
    parts.push_back(
        {.inputs = own(part.inputs), .targets = own(part.targets), .ids = part.ids, .named = part.named.map(own)});
  }
  return parts;
}

[[noreturn]] void refuse_outputs(const std::string& what) {
  throw std::invalid_argument{fmt::format("the replicas of the model do not return the same: {}", what)};
}

/// The mean of `losses` weighted by `samples`; undefined without losses.
torch::Tensor mean_loss(const std::vector<torch::Tensor>& losses, const std::vector<std::int64_t>& samples) {
  if (losses.empty()) return {};
  if (losses.size() != samples.size())
    refuse_outputs(fmt::format("{} of {} parts of the batch have a loss", losses.size(), samples.size()));
  if (losses.size() == 1) return losses.front();
  const auto all = static_cast<double>(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}));
  torch::Tensor sum;
  for (std::size_t place = 0; place < losses.size(); ++place) {
    TORCH_CHECK(losses[place].numel() == 1, "a step gave a loss of ", losses[place].numel(), " numbers");
    const torch::Tensor part = losses[place].reshape({}) * (static_cast<double>(samples[place]) / all);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

/// `values`, of the replicas in order, as one on `device`.
torch::Tensor join(const std::string& name, const std::vector<torch::Tensor>& values, torch::Device device) {
  std::vector<torch::Tensor> moved;
  for (const torch::Tensor& value : values) {
    if (!value.defined()) refuse_outputs(fmt::format("one has no value '{}'", name));
    if (value.dim() != values.front().dim())
      refuse_outputs(
          fmt::format("'{}' has {} dimensions in one, {} in another", name, values.front().dim(), value.dim()));
    moved.push_back(value.to(device));
  }
  return values.front().dim() == 0 ? torch::stack(moved) : torch::cat(moved);
}

std::map<std::string, torch::Tensor> join(const std::vector<std::map<std::string, torch::Tensor>>& of_replicas,
                                          torch::Device device) {
  std::map<std::string, std::vector<torch::Tensor>> by_name;
  for (std::size_t place = 0; place < of_replicas.size(); ++place) {
    for (const auto& [name, value] : of_replicas[place]) {
      auto& values = by_name[name];
      values.resize(of_replicas.size());
      values[place] = value;
    }
  }
  std::map<std::string, torch::Tensor> joined;
  for (const auto& [name, values] : by_name) joined[name] = join(name, values, device);
  return joined;
}

}  // namespace

ModuleReplicas::ModuleReplicas(Module& trained, torch::Device device, std::vector<FurtherReplica> others,
                               const ReplicaOptions& options)
    : options_{options} {
  const NamedTensors tensors = tensors_of(trained);
  check_memory(tensors);
  for (const auto& [name, tensor] : tensors) sources_.push_back(tensor);
  for (const auto& [name, parameter] : named_parameters(trained)) names_.push_back(name);
  copied_versions_.resize(names_.size());
  are_linked_.resize(names_.size());
  replicas_.push_back({.module = &trained, .device = device, .parts = parts_of(trained)});
  for (FurtherReplica& other : others) {
    const NamedTensors own = tensors_of(*other.module);
    check_equal(tensors, own);
    Replica replica{.module = other.module.get(), .device = other.device, .parts = parts_of(*other.module)};
    if (const std::size_t count = replica.parts.size(), expected = replicas_.front().parts.size(); count != expected)
      refuse_instances(fmt::format("{} submodules", expected - 1), fmt::format("{}", count - 1));
    replica.owner = std::move(other.module);
    for (const auto& [name, tensor] : own) {
      replica.tensors.push_back(tensor);
      replica.values.push_back(tensor.variable_data());
    }
    for (std::size_t index = 0; index < names_.size(); ++index) replica.tensors[index].set_requires_grad(false);
    if (options_.has_threads) replica.thread = std::make_unique<Thread>(1);
    replicas_.push_back(std::move(replica));
  }
}

ModuleReplicas::~ModuleReplicas() = default;

/// Registers a replica's parameter with autograd as a copy of the trained one, so that its gradient is added to that of
/// the trained one.
void ModuleReplicas::link_gradient(Replica& replica, std::size_t parameter) {
  const torch::AutoGradMode with_history{true};
  const torch::Tensor copy = sources_[parameter].to(replica.device, /*non_blocking=*/false, /*copy=*/true);
  // The engine takes the nodes of the latest operators first. This one is as old as the replica, and would be last,
  // after the whole backward pass, while ddp2 is to exchange each gradient as soon as it is there.
  copy.grad_fn()->set_sequence_nr(std::numeric_limits<std::uint64_t>::max());
  replica.tensors[parameter].set_requires_grad(true);
  torch::autograd::impl::set_gradient_edge(replica.tensors[parameter], torch::autograd::impl::gradient_edge(copy));
}

void ModuleReplicas::set_rank_context(RankContext* context) {
  context_ = context;
  for (Replica& replica : replicas_) {
    replica.context.reset();
    replica.module->set_rank_context(replica.owner == nullptr ? context : nullptr);
  }
}

StepOutput ModuleReplicas::training_step(const Batch& batch, std::int64_t batch_index, const TurnOfBatch& turn) {
  seed_generators();
  Outputs outputs =
      run_step(batch, turn, [&](Module& module, const Batch& part) { return module.training_step(part, batch_index); });
  check_links();
  return joined(std::move(outputs));
}

StepOutput ModuleReplicas::validation_step(const Batch& batch, std::int64_t batch_index) {
  return joined(run_step(batch, {},
                         [&](Module& module, const Batch& part) { return module.validation_step(part, batch_index); }));
}

StepOutput ModuleReplicas::test_step(const Batch& batch, std::int64_t batch_index) {
  return joined(
      run_step(batch, {}, [&](Module& module, const Batch& part) { return module.test_step(part, batch_index); }));
}

ModuleReplicas::Outputs ModuleReplicas::run_step(const Batch& batch, const TurnOfBatch& turn,
                                                 const std::function<StepOutput(Module&, const Batch&)>& step) {
  std::vector<StepOutput> of_parts(replicas_.size());
  auto samples = run(
      batch, turn, [&](std::size_t place, Module& module, const Batch& part) { of_parts[place] = step(module, part); });
  of_parts.resize(samples.size());
  return {.of_parts = std::move(of_parts), .samples = std::move(samples)};
}

StepOutput ModuleReplicas::joined(Outputs outputs) const {
  const torch::Device device = replicas_.front().device;
  std::vector<torch::Tensor> losses;
  std::vector<std::map<std::string, torch::Tensor>> values;
  for (StepOutput& output : outputs.of_parts) {
    if (output.loss.defined()) losses.push_back(output.loss.to(device));
    values.push_back(std::move(output.values));
  }
  StepOutput whole;
  whole.loss = mean_loss(losses, outputs.samples);
  whole.values = join(values, device);
  return whole;
}

std::map<std::string, torch::Tensor> ModuleReplicas::predict_step(const Batch& batch, std::int64_t batch_index) {
  std::vector<std::map<std::string, torch::Tensor>> predicted(replicas_.size());
  const auto samples = run(batch, {}, [&](std::size_t place, Module& module, const Batch& part) {
    predicted[place] = module.predict_step(part, batch_index);
    for (const auto& [name, value] : predicted[place]) {
      if (value.defined() && value.dim() == 0)
        throw std::invalid_argument{
            fmt::format("predict_step returned a scalar as '{}', and not one for each sample", name)};
    }
  });
  predicted.resize(samples.size());
  return join(predicted, replicas_.front().device);
}

/// Calls `step` for each part of `batch`. Returns the numbers of samples of the parts.
std::vector<std::int64_t> ModuleReplicas::run(const Batch& batch, const TurnOfBatch& turn, const Step& step) {
  const std::vector<Batch> parts = divide(batch, replicas_.size());
  Module& trained = *replicas_.front().module;
  observe::MetricSink* const sink = trained.metric_sink();
  std::vector<std::int64_t> samples;
  for (std::size_t place = 0; place < parts.size(); ++place) {
    Replica& replica = replicas_[place];
    replica.metrics = {};
    if (sink != nullptr) replica.module->set_metric_sink(&replica.metrics);
    replica.module->set_optimizer_turn(turn.name);
    if (context_ != nullptr) replica.context.emplace(context_->of_replica(replica.device));
    replica.module->set_rank_context(replica.context ? &*replica.context : nullptr);
    if (replica.owner != nullptr) copy_trained(replica, turn.is_first);
    samples.push_back(parts[place].size());
  }
  note_versions();
  const std::exception_ptr error = call(parts, step);
  trained.set_metric_sink(sink);
  trained.set_rank_context(context_);
  if (error) std::rethrow_exception(error);
  for (std::size_t place = 0; sink != nullptr && place < parts.size(); ++place)
    replicas_[place].metrics.replay(*sink, samples[place], replicas_.front().device);
  if (sink != nullptr) sink->set_batch_size(batch.size());
  return samples;
}

/// Calls `step` for all `parts`. Returns the exception of the first that throws.
std::exception_ptr ModuleReplicas::call(const std::vector<Batch>& parts, const Step& step) {
  std::vector<std::exception_ptr> errors(parts.size());
  const auto call_one = [&](std::size_t place) {
    const Replica& replica = replicas_[place];
    step(place, *replica.module, parts[place].on(replica.device));
  };
  const auto keep_error = [&](std::size_t place, const auto& work) {
    try {
      work();
    } catch (...) {
      errors[place] = std::current_exception();
    }
  };
  for (std::size_t place = 1; place < parts.size() && options_.has_threads; ++place) {
    replicas_[place].thread->add([&, place, state = at::ThreadLocalState{}] {
      const at::ThreadLocalStateGuard as_caller{state};
      const torch::Device device = replicas_[place].device;
      c10::OptionalDeviceGuard guard;
      if (!device.is_cpu()) guard.reset_device(device);
      call_one(place);
      return std::monostate{};
    });
  }
  keep_error(0, [&] { call_one(0); });
  for (std::size_t place = 1; place < parts.size(); ++place) {
    keep_error(place, [&] {
      if (options_.has_threads) {
        std::ignore = replicas_[place].thread->take();
      } else {
        call_one(place);
      }
    });
  }
  const auto first = std::ranges::find_if(errors, [](const std::exception_ptr& error) { return error != nullptr; });
  return first == errors.end() ? nullptr : *first;
}

/// Copies to a replica the trained module's parameters and modes and, with a new batch, its buffers: in the turns that
/// follow on the batch a replica goes on from its own, which graphs of the earlier turns have saved.
void ModuleReplicas::copy_trained(Replica& replica, bool is_new_batch) {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; index < sources_.size(); ++index) {
    // A step may have given the tensor other memory: set_data(), or flatten_parameters() of an RNN.
    if (!replica.tensors[index].is_alias_of(replica.values[index]))
      replica.values[index] = replica.tensors[index].variable_data();
  }
  const std::size_t count = is_new_batch ? sources_.size() : names_.size();
  const at::TensorList values{replica.values.data(), count};
  if (count > 0) at::_foreach_copy_(values, {sources_.data(), count}, /*non_blocking=*/true);
  const std::vector<torch::nn::Module*>& trained = replicas_.front().parts;
  for (std::size_t part = 0; part < trained.size(); ++part) {
    // A part comes before its own parts, because train() also sets their mode.
    if (replica.parts[part]->is_training() != trained[part]->is_training())
      replica.parts[part]->train(trained[part]->is_training());
  }
}

/// Bumps the versions of the replicas' parameters whose source has changed since the last batch: autograd then refuses
/// a backward pass through the old values, as it does for the trained module. Links those that need gradients now.
void ModuleReplicas::note_versions() {
  for (std::size_t index = 0; index < names_.size(); ++index) {
    const std::int64_t version = sources_[index]._version();
    const bool has_changed = std::exchange(copied_versions_[index], version) != version;
    const bool is_new = sources_[index].requires_grad() && !are_linked_[index];
    if (is_new) are_linked_[index] = true;
    for (Replica& replica : replicas_) {
      if (replica.owner == nullptr) continue;
      if (has_changed) torch::autograd::impl::bump_version(replica.tensors[index]);
      if (is_new) link_gradient(replica, index);
    }
  }
}

/// set_requires_grad(false) does not freeze a tensor with history, and does not throw as requires_grad_(false) does.
void ModuleReplicas::check_links() const {
  for (std::size_t index = 0; index < names_.size(); ++index) {
    for (const Replica& replica : replicas_) {
      if (replica.owner == nullptr || !are_linked_[index]) continue;
      const auto* const meta = torch::autograd::impl::get_autograd_meta(replica.tensors[index]);
      if (meta->requires_grad_) continue;
      throw InvalidJob{
          fmt::format("training_step froze the parameter {} by set_requires_grad(false), which has no effect in the "
                      "replicas of strategies dp and ddp2: use FrozenParameters",
                      names_[index])};
    }
  }
}

/// Sets the random generators of the further GPUs, so that a run that resumes draws the same numbers. The generator of
/// the first device is part of each checkpoint.
void ModuleReplicas::seed_generators() {
  const std::int64_t step = context_ == nullptr ? 0 : context_->global_step();
  const std::int64_t rank = context_ == nullptr ? 0 : context_->rank();
  draws_ = step == drawn_step_ ? draws_ + 1 : 0;
  drawn_step_ = step;
  data::SampleRandom of_step{options_.seed, step, rank};
  const auto seed = static_cast<std::int64_t>(of_step.bits());
  for (std::size_t place = 1; place < replicas_.size(); ++place) {
    if (replicas_[place].device.is_cpu()) continue;
    data::SampleRandom random{seed, draws_, static_cast<std::int64_t>(place)};
    at::Generator generator = at::globalContext().defaultGenerator(replicas_[place].device);
    const std::scoped_lock lock{generator.mutex()};
    generator.set_current_seed(random.bits());
  }
}

}  // namespace trainyard::train
