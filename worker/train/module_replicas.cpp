#include "worker/train/module_replicas.hpp"

#include <ATen/ThreadLocalState.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
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

std::string text_of(const std::pair<std::string, torch::Tensor>& named) {
  return fmt::format("{} {} [{}]", named.first, c10::toString(named.second.scalar_type()),
                     fmt::join(named.second.sizes(), ", "));
}

void check_equal(const NamedTensors& first, const NamedTensors& other) {
  for (std::size_t place = 0; place < std::max(first.size(), other.size()); ++place) {
    const std::string expected = place < first.size() ? text_of(first[place]) : "nothing";
    const std::string found = place < other.size() ? text_of(other[place]) : "nothing";
    if (expected == found) continue;
    throw InvalidJob{
        fmt::format("training.strategy.name: dp and ddp2 make an instance of the model for each device, and two are "
                    "not alike: one has {}, the other {}; the model's constructor must make the same layers each time",
                    expected, found)};
  }
}

std::vector<torch::nn::Module*> parts_of(Module& module) {
  std::vector<torch::nn::Module*> parts{&module};
  for (const auto& part : module.modules(/*include_self=*/false)) parts.push_back(part.get());
  return parts;
}

/// The parts of a batch that `count` replicas get, as torch.chunk makes them.
std::vector<Batch> divide(const Batch& batch, std::size_t count) {
  const auto replicas = static_cast<std::int64_t>(count);
  const std::int64_t size = std::max<std::int64_t>((batch.size() + replicas - 1) / replicas, 1);
  std::vector<Batch> parts;
  for (std::int64_t begin = 0; begin == 0 || begin < batch.size(); begin += size)
    parts.push_back(batch.samples(begin, std::min(begin + size, batch.size())));
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
    TORCH_CHECK(losses[place].numel() == 1, "the training step gave a loss of ", losses[place].numel(), " numbers");
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
  if (of_replicas.size() == 1) return of_replicas.front();
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

ModuleReplicas::ModuleReplicas(Module& first, torch::Device device, std::vector<Replica> others,
                               const ReplicaOptions& options)
    : options_{options} {
  const NamedTensors tensors = tensors_of(first);
  for (const auto& [name, tensor] : tensors) sources_.push_back(tensor);
  copied_versions_.resize(named_parameters(first).size());
  members_.push_back({.module = &first, .device = device, .parts = parts_of(first)});
  for (Replica& other : others) {
    const NamedTensors own = tensors_of(*other.module);
    check_equal(tensors, own);
    Member member{.module = other.module.get(), .device = other.device, .parts = parts_of(*other.module)};
    member.owner = std::move(other.module);
    for (const auto& [name, tensor] : own) {
      member.tensors.push_back(tensor);
      member.values.push_back(tensor.variable_data());
    }
    link_gradients(member);
    members_.push_back(std::move(member));
  }
}

ModuleReplicas::~ModuleReplicas() = default;

/// Makes each parameter of the replica a copy of the first one's in autograd's eyes, so that its gradient goes there.
void ModuleReplicas::link_gradients(Member& member) {
  for (std::size_t index = 0; index < copied_versions_.size(); ++index) {
    member.tensors[index].set_requires_grad(false);
    if (!sources_[index].requires_grad()) continue;
    const torch::AutoGradMode with_history{true};
    const torch::Tensor copy = sources_[index].to(member.device, /*non_blocking=*/false, /*copy=*/true);
    torch::autograd::impl::set_gradient_edge(member.tensors[index], torch::autograd::impl::gradient_edge(copy));
  }
}

void ModuleReplicas::set_rank_context(RankContext* context) {
  context_ = context;
  for (Member& member : members_) {
    member.context.reset();
    member.module->set_rank_context(member.owner == nullptr ? context : nullptr);
  }
}

StepOutput ModuleReplicas::training_step(const Batch& batch, std::int64_t batch_index, const std::string& turn) {
  seed_generators();
  std::vector<StepOutput> outputs(members_.size());
  const auto samples = run(batch, turn, [&](std::size_t place, Module& module, const Batch& part) {
    outputs[place] = module.training_step(part, batch_index);
  });
  outputs.resize(samples.size());
  const torch::Device device = members_.front().device;
  std::vector<torch::Tensor> losses;
  std::vector<std::map<std::string, torch::Tensor>> values;
  for (StepOutput& output : outputs) {
    if (output.loss.defined()) losses.push_back(output.loss.to(device));
    values.push_back(std::move(output.values));
  }
  StepOutput whole;
  whole.loss = mean_loss(losses, samples);
  whole.values = join(values, device);
  return whole;
}

void ModuleReplicas::validation_step(const Batch& batch, std::int64_t batch_index) {
  run(batch, {}, [&](std::size_t, Module& module, const Batch& part) { module.validation_step(part, batch_index); });
}

void ModuleReplicas::test_step(const Batch& batch, std::int64_t batch_index) {
  run(batch, {}, [&](std::size_t, Module& module, const Batch& part) { module.test_step(part, batch_index); });
}

std::map<std::string, torch::Tensor> ModuleReplicas::predict_step(const Batch& batch, std::int64_t batch_index) {
  std::vector<std::map<std::string, torch::Tensor>> predicted(members_.size());
  const auto samples = run(batch, {}, [&](std::size_t place, Module& module, const Batch& part) {
    predicted[place] = module.predict_step(part, batch_index);
  });
  predicted.resize(samples.size());
  return join(predicted, members_.front().device);
}

/// Calls `step` for each part of `batch`. Returns the numbers of samples of the parts.
std::vector<std::int64_t> ModuleReplicas::run(const Batch& batch, const std::string& turn, const Step& step) {
  const std::vector<Batch> parts = divide(batch, members_.size());
  Module& first = *members_.front().module;
  observe::MetricSink* const sink = first.metric_sink();
  std::vector<std::int64_t> samples;
  for (std::size_t place = 0; place < parts.size(); ++place) {
    Member& member = members_[place];
    member.metrics = {};
    if (sink != nullptr) member.module->set_metric_sink(&member.metrics);
    member.module->set_optimizer_turn(turn);
    if (member.owner != nullptr) copy_first(member);
    samples.push_back(parts[place].size());
  }
  note_versions();
  const std::exception_ptr error = call(parts, step);
  first.set_metric_sink(sink);
  if (error) std::rethrow_exception(error);
  for (std::size_t place = 0; sink != nullptr && place < parts.size(); ++place)
    members_[place].metrics.replay(*sink, samples[place], members_.front().device);
  if (sink != nullptr) sink->set_batch_size(batch.size());
  return samples;
}

/// Calls `step` for all `parts`. Returns the exception of the first that throws.
std::exception_ptr ModuleReplicas::call(const std::vector<Batch>& parts, const Step& step) {
  std::vector<std::exception_ptr> errors(parts.size());
  const auto call_one = [&](std::size_t place) {
    try {
      Member& member = members_[place];
      step(place, *member.module, parts[place].on(member.device));
    } catch (...) {
      errors[place] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t place = 1; place < parts.size() && options_.has_threads; ++place) {
      threads.emplace_back([&, place, state = at::ThreadLocalState{}] {
        const at::ThreadLocalStateGuard as_caller{state};
        const torch::Device device = members_[place].device;
        c10::OptionalDeviceGuard guard;
        if (!device.is_cpu()) guard.reset_device(device);
        const Autocast autocast{options_.format, device};
        call_one(place);
      });
    }
    call_one(0);
    for (std::size_t place = 1; place < parts.size() && !options_.has_threads; ++place) call_one(place);
  }
  const auto first = std::ranges::find_if(errors, [](const std::exception_ptr& error) { return error != nullptr; });
  return first == errors.end() ? nullptr : *first;
}

/// Gives a replica the first one's values, modes and facts.
void ModuleReplicas::copy_first(Member& member) {
  const torch::NoGradGuard no_grad;
  if (!sources_.empty()) at::_foreach_copy_(member.values, sources_, /*non_blocking=*/true);
  const std::vector<torch::nn::Module*>& first = members_.front().parts;
  for (std::size_t part = 0; part < first.size(); ++part) {
    // A part comes before its own parts, because train() also sets their mode.
    if (member.parts[part]->is_training() != first[part]->is_training())
      member.parts[part]->train(first[part]->is_training());
  }
  if (context_ != nullptr) member.context.emplace(context_->of_replica(member.device));
  member.module->set_rank_context(member.context ? &*member.context : nullptr);
}

/// Tells autograd which parameters of the replicas have changed since the last batch, as it knows of the first one's: a
/// tensor that was computed by the values from before cannot be differentiated any more.
void ModuleReplicas::note_versions() {
  for (std::size_t index = 0; index < copied_versions_.size(); ++index) {
    const std::int64_t version = sources_[index]._version();
    if (std::exchange(copied_versions_[index], version) == version) continue;
    for (const Member& member : members_) {
      if (member.owner != nullptr) torch::autograd::impl::bump_version(member.tensors[index]);
    }
  }
}

/// Sets the random generators of the further GPUs, so that a run that resumes draws the same numbers. That of the first
/// device is part of each checkpoint.
void ModuleReplicas::seed_generators() {
  const std::int64_t step = context_ == nullptr ? 0 : context_->global_step();
  const std::int64_t rank = context_ == nullptr ? 0 : context_->rank();
  draws_ = step == drawn_step_ ? draws_ + 1 : 0;
  drawn_step_ = step;
  data::SampleRandom of_step{options_.seed, step, rank};
  const auto seed = static_cast<std::int64_t>(of_step.bits());
  for (std::size_t place = 1; place < members_.size(); ++place) {
    if (members_[place].device.is_cpu()) continue;
    data::SampleRandom random{seed, draws_, static_cast<std::int64_t>(place)};
    at::Generator generator = at::globalContext().defaultGenerator(members_[place].device);
    const std::scoped_lock lock{generator.mutex()};
    generator.set_current_seed(random.bits());
  }
}

}  // namespace trainyard::train
