#include "worker/train/training_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string_view>
#include <utility>

#include "checkpoint/format/entry.hpp"
#include "worker/strategy/memory_on_demand.hpp"
#include "worker/strategy/model_agreement.hpp"

namespace trainyard::train {

using checkpoint::Placement;

namespace {

std::string model_fingerprint(const std::string& model_name, const Module& module) {
  std::string layout;
  for (const auto& tensors : {named_parameters(module), named_buffers(module)}) {
    for (const auto& [name, tensor] : tensors) {
      layout += fmt::format("{} {} [{}]\n", name, c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
    }
  }
  const std::uint64_t model =
      strategy::checksum({{"layout", torch::tensor(std::vector<int>{layout.begin(), layout.end()})}});
  return fmt::format("{}-{:016x}", model_name, model);
}

std::string data_fingerprint(const std::string& id, const api::DataSpec& data) {
  if (!id.empty()) return id;
  return fmt::format("{} {}", api::name_of(data.format), data.uri.empty() ? data.path : data.uri);
}

nlohmann::json to_json(const BestValue& best) {
  return {{"metric", best.metric}, {"isHighest", best.mode == api::BestMode::max}, {"value", best.value}};
}

/// The field "best" of `object`, if there is one. Throws nlohmann::json::exception when a part of it is missing.
std::optional<BestValue> best_in(const nlohmann::json& object) {
  const auto best = object.find("best");
  if (best == object.end()) return std::nullopt;
  return BestValue{.metric = best->at("metric").get<std::string>(),
                   .mode = best->at("isHighest").get<bool>() ? api::BestMode::max : api::BestMode::min,
                   .value = best->at("value").get<double>()};
}

}  // namespace

void seed_for_training(std::int64_t seed, std::int64_t rank) {
  torch::manual_seed(static_cast<std::uint64_t>(seed + 1 + rank));
}

RandomState::RandomState(torch::Device device) {
  generators_.push_back(at::globalContext().defaultGenerator(torch::kCPU));
  if (device.is_cuda()) generators_.push_back(at::globalContext().defaultGenerator(device));
  for (const at::Generator& generator : generators_) {
    entries_.push_back(
        {.name = fmt::format("{}{}", checkpoint::random_prefix, generator.device().is_cpu() ? "cpu" : "cuda"),
         .placement = Placement::per_rank,
         .tensor = generator.get_state().clone()});
  }
}

void RandomState::read() {
  for (std::size_t index = 0; index < generators_.size(); ++index) {
    const std::scoped_lock lock{generators_[index].mutex()};
    entries_[index].tensor.copy_(generators_[index].get_state());
  }
}

void RandomState::write() const {
  for (std::size_t index = 0; index < generators_.size(); ++index) {
    at::Generator generator = generators_[index];
    const std::scoped_lock lock{generator.mutex()};
    generator.set_state(entries_[index].tensor);
  }
}

checkpoint::State model_state(const Module& module, bool has_equal_parameters) {
  const strategy::NoOperatorAsks none_asks;  // detach() needs no memory of a parameter in parts.
  checkpoint::State state;
  for (const auto& [name, tensor] : named_parameters(module)) {
    state.entries.push_back({.name = fmt::format("{}{}", checkpoint::model_prefix, name),
                             .placement = has_equal_parameters ? Placement::replicated : Placement::rank0,
                             .tensor = tensor.detach(),
                             .must_be_finite = tensor.is_floating_point(),
                             .is_steady = true});
  }
  for (const auto& [name, tensor] : named_buffers(module)) {
    state.entries.push_back({.name = fmt::format("{}{}", checkpoint::model_prefix, name),
                             .placement = Placement::rank0,
                             .tensor = tensor.detach()});
  }
  return state;
}

checkpoint::State make_state(const Module& module, const NamedTensors& optimizer_state, const RandomState& random,
                             const EqualOnRanks& equal, const std::map<std::string, checkpoint::Shard>& shards) {
  checkpoint::State state = model_state(module, equal.parameters);
  for (const auto& [name, tensor] : optimizer_state) {
    state.entries.push_back({.name = fmt::format("{}{}", checkpoint::optimizer_prefix, name),
                             .placement = equal.optimizer ? Placement::replicated : Placement::per_rank,
                             .tensor = tensor.detach(),
                             .is_steady = true});
    if (const auto shard = shards.find(name); shard != shards.end()) {
      state.entries.back().placement = Placement::sharded;
      state.entries.back().shard = shard->second;
    }
  }
  state.entries.insert(state.entries.end(), random.entries().begin(), random.entries().end());
  return state;
}

nlohmann::json to_json(const TrainingValues& values) {
  nlohmann::json metrics = nlohmann::json::object();
  for (const auto& [name, value] : values.metrics) {
    if (std::isfinite(value)) metrics[name] = value;  // JSON has no not-a-number.
  }
  nlohmann::json object = {{"step", values.position.step},
                           {"epoch", values.position.epoch},
                           {"samples", values.position.samples},
                           {"metrics", std::move(metrics)}};
  if (values.best) object["best"] = to_json(*values.best);
  if (values.plateau != PlateauState{}) {
    object["plateau"] = {{"factor", values.plateau.factor}, {"badCount", values.plateau.bad_count}};
    if (values.plateau.best) object["plateau"]["best"] = to_json(*values.plateau.best);
  }
  if (values.stopping != StoppingState{}) {
    object["earlyStopping"] = {{"badCount", values.stopping.bad_count}};
    if (values.stopping.best) object["earlyStopping"]["best"] = to_json(*values.stopping.best);
  }
  if (values.owes_validation) object["owesValidation"] = true;
  if (values.is_ended_by_callback) object["isEndedByCallback"] = true;
  if (values.epoch_samples) object["epochSamples"] = *values.epoch_samples;
  if (!values.order_sizes.empty()) object["orderSizes"] = values.order_sizes;
  return object;
}

Result<TrainingValues> parse_training_values(const nlohmann::json& object) {
  try {
    TrainingValues values{.position = {.step = object.at("step").get<std::int64_t>(),
                                       .epoch = object.at("epoch").get<std::int64_t>(),
                                       .samples = object.at("samples").get<std::int64_t>()},
                          .metrics = {}};
    for (const auto& [name, value] : object.at("metrics").items()) values.metrics[name] = value.get<double>();
    values.best = best_in(object);
    if (const auto plateau = object.find("plateau"); plateau != object.end()) {
      values.plateau = {.factor = plateau->at("factor").get<double>(),
                        .best = best_in(*plateau),
                        .bad_count = plateau->at("badCount").get<std::int64_t>()};
    }
    if (const auto stopping = object.find("earlyStopping"); stopping != object.end())
      values.stopping = {.best = best_in(*stopping), .bad_count = stopping->at("badCount").get<std::int64_t>()};
    values.owes_validation = object.value("owesValidation", false);
    values.is_ended_by_callback = object.value("isEndedByCallback", false);
    if (const auto samples = object.find("epochSamples"); samples != object.end())
      values.epoch_samples = samples->get<std::int64_t>();
    values.order_sizes = object.value("orderSizes", std::vector<std::int64_t>{});
    return values;
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::corrupt,
                fmt::format("the checkpoint's values are not those of this worker: {}", error.what()));
  }
}

std::string fingerprint(const std::string& model_name, const Module& module, const Dataset& dataset,
                        const api::DataSpec& data, const Sampler* sampler) {
  const std::string text = fmt::format("{}/{}-{}", model_fingerprint(model_name, module), dataset.size(),
                                       data_fingerprint(dataset.id(), data));
  // The size of a rank's own sampler may depend on the number of ranks, with any of which a run may resume.
  if (!data.replace_sampler) return text + "/own orders";
  return sampler == nullptr ? text : text + fmt::format("/{} an epoch", sampler->size());
}

std::string fingerprint(const std::string& model_name, const Module& module, const Datasets& datasets,
                        const api::DataSpec& data) {
  if (datasets.iterable_train == nullptr)
    return fingerprint(model_name, module, *datasets.train, data, datasets.sampler.get());
  return fmt::format("{}/streams-{}", model_fingerprint(model_name, module),
                     data_fingerprint(datasets.iterable_train->id(), data));
}

}  // namespace trainyard::train
