#pragma once

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <memory>

#include "worker/strategy/model_agreement.hpp"

namespace trainyard::strategy {

/// A model with a convolution, BatchNorm's buffers and two linear layers: small, but with several gradients and buffers
/// of two types.
struct TinyModel : torch::nn::Module {
  TinyModel() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("hidden", hidden);
    register_module("out", out);
  }
  /// `trains_head_only`: the loss uses neither the convolution's parameters nor BatchNorm's.
  torch::Tensor forward(const torch::Tensor& images, bool trains_head_only = false) {
    const torch::Tensor features = torch::relu(norm(conv(images))).flatten(1);
    return out(torch::relu(hidden(trains_head_only ? features.detach() : features)));
  }

  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 4, 3)};
  torch::nn::BatchNorm2d norm{4};
  torch::nn::Linear hidden{4 * 6 * 6, 16};
  torch::nn::Linear out{16, 10};
};

inline NamedTensors parameters_of(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

inline NamedTensors buffers_of(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

/// Parameters, then buffers, as one float vector.
inline torch::Tensor flat_state(const torch::nn::Module& module) {
  std::vector<torch::Tensor> parts;
  for (const auto& [name, tensor] : parameters_of(module)) parts.push_back(tensor.detach().flatten());
  for (const auto& [name, tensor] : buffers_of(module)) parts.push_back(tensor.to(torch::kFloat).flatten());
  return torch::cat(parts).clone();
}

/// A model whose weights depend on `seed` alone. Not from several threads at a time: the weights come from the
/// process's generator.
inline std::shared_ptr<TinyModel> make_tiny_model(std::int64_t seed) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return std::make_shared<TinyModel>();
}

struct TinyBatch {
  torch::Tensor images;  // [8, 1, 8, 8]
  torch::Tensor labels;  // [8]
};

inline TinyBatch make_tiny_batch(std::int64_t step, std::int64_t rank) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + rank));
  return {.images = torch::rand({8, 1, 8, 8}, generator),
          .labels = torch::randint(0, 10, {8}, generator, torch::kInt64)};
}

inline torch::Tensor loss_of(TinyModel& model, const TinyBatch& batch, bool trains_head_only = false) {
  return torch::nn::functional::cross_entropy(model.forward(batch.images, trains_head_only), batch.labels);
}

/// Plain SGD, so that a difference in the gradients stays a difference.
inline void descend(torch::nn::Module& module, double lr) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : module.parameters()) {
    if (parameter.grad().defined()) parameter.sub_(parameter.grad(), lr);
  }
}

}  // namespace trainyard::strategy
