#include "worker/models/gpt2.hpp"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <memory>
#include <string>

#include "worker/models/check_batch.hpp"

namespace trainyard::models {
namespace {

constexpr double norm_eps = 1e-5;
constexpr double first_deviation = 0.02;

/// A linear layer whose weight is [in, out], as those of the published GPT-2.
class Conv1D final : public torch::nn::Module {
 public:
  Conv1D(std::int64_t in, std::int64_t out, double deviation)
      : weight_{register_parameter("weight", torch::empty({in, out}).normal_(0.0, deviation))},
        bias_{register_parameter("bias", torch::zeros({out}))} {}

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) const {
    return torch::linear(input, weight_.t(), bias_);
  }

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
};

/// Multi-head attention of each token to itself and those before it.
class Attention final : public torch::nn::Module {
 public:
  Attention(const Gpt2Sizes& sizes, double last_deviation)
      : heads_{sizes.heads},
        dropout_{sizes.dropout},
        c_attn_{register_module("c_attn", std::make_shared<Conv1D>(sizes.width, 3 * sizes.width, first_deviation))},
        c_proj_{register_module("c_proj", std::make_shared<Conv1D>(sizes.width, sizes.width, last_deviation))},
        drop_{register_module("resid_dropout", torch::nn::Dropout{sizes.dropout})} {}

  torch::Tensor forward(const torch::Tensor& input) {
    const std::int64_t batch = input.size(0);
    const std::int64_t length = input.size(1);
    const std::int64_t width = input.size(2);
    const auto by_head = [&](const torch::Tensor& part) {
      return part.view({batch, length, heads_, width / heads_}).transpose(1, 2);
    };
    const auto parts = c_attn_->forward(input).split(width, 2);
    const torch::Tensor attended =
        at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), /*attn_mask=*/{},
                                         is_training() ? dropout_ : 0.0, /*is_causal=*/true);
    return drop_(c_proj_->forward(attended.transpose(1, 2).reshape({batch, length, width})));
  }

 private:
  std::int64_t heads_;
  double dropout_;
  std::shared_ptr<Conv1D> c_attn_;
  std::shared_ptr<Conv1D> c_proj_;
  torch::nn::Dropout drop_;
};

class FeedForward final : public torch::nn::Module {
 public:
  FeedForward(const Gpt2Sizes& sizes, double last_deviation)
      : c_fc_{register_module("c_fc", std::make_shared<Conv1D>(sizes.width, 4 * sizes.width, first_deviation))},
        c_proj_{register_module("c_proj", std::make_shared<Conv1D>(4 * sizes.width, sizes.width, last_deviation))},
        drop_{register_module("dropout", torch::nn::Dropout{sizes.dropout})} {}

  torch::Tensor forward(const torch::Tensor& input) {
    return drop_(c_proj_->forward(torch::gelu(c_fc_->forward(input), "tanh")));
  }

 private:
  std::shared_ptr<Conv1D> c_fc_;
  std::shared_ptr<Conv1D> c_proj_;
  torch::nn::Dropout drop_;
};

torch::nn::LayerNorm norm_of(std::int64_t width) {
  return torch::nn::LayerNorm{torch::nn::LayerNormOptions({width}).eps(norm_eps)};
}

class Gpt2Block final : public torch::nn::Module {
 public:
  Gpt2Block(const Gpt2Sizes& sizes, double last_deviation)
      : ln_1_{register_module("ln_1", norm_of(sizes.width))},
        attn_{register_module("attn", std::make_shared<Attention>(sizes, last_deviation))},
        ln_2_{register_module("ln_2", norm_of(sizes.width))},
        mlp_{register_module("mlp", std::make_shared<FeedForward>(sizes, last_deviation))} {}

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor attended = input + attn_->forward(ln_1_(input));
    return attended + mlp_->forward(ln_2_(attended));
  }

 private:
  torch::nn::LayerNorm ln_1_;
  std::shared_ptr<Attention> attn_;
  torch::nn::LayerNorm ln_2_;
  std::shared_ptr<FeedForward> mlp_;
};

/// A module that only gives its parts a prefix.
class Prefix final : public torch::nn::Module {
 public:
  using torch::nn::Module::register_module;
  using torch::nn::Module::register_parameter;
};

}  // namespace

Gpt2Sizes read_gpt2_sizes(const Options& options) {
  Gpt2Sizes sizes;
  sizes.layers = options.integer("layers", sizes.layers, {.min = 1, .max = 1000});
  sizes.heads = options.integer("heads", sizes.heads, {.min = 1, .max = 1000});
  sizes.width = options.integer("width", sizes.width, {.min = 1, .max = 100'000});
  sizes.vocabulary = options.integer("vocabulary", sizes.vocabulary, {.min = 1, .max = 10'000'000});
  sizes.sequence_length = options.integer("sequenceLength", sizes.sequence_length, {.min = 1, .max = 1'048'576});
  sizes.dropout = options.number("dropout", sizes.dropout, {.min = 0, .max = 0.99});
  if (sizes.width % sizes.heads != 0) {
    throw InvalidJob{"training.model.options.width: must be a multiple of the " + std::to_string(sizes.heads) +
                     " heads, got " + std::to_string(sizes.width)};
  }
  return sizes;
}

Gpt2::Gpt2(const Gpt2Sizes& sizes)
    : sizes_{sizes},
      token_embedding_{sizes.vocabulary, sizes.width},
      place_embedding_{sizes.sequence_length, sizes.width},
      drop_{sizes.dropout},
      last_norm_{norm_of(sizes.width)} {
  const torch::NoGradGuard no_grad;
  token_embedding_->weight.normal_(0.0, first_deviation);
  place_embedding_->weight.normal_(0.0, first_deviation);
  // The parts that are added to the residuals are smaller in deeper networks.
  const double last_deviation = first_deviation / std::sqrt(2.0 * static_cast<double>(sizes.layers));
  for (std::int64_t number = 0; number < sizes.layers; ++number)
    blocks_->push_back(std::make_shared<Gpt2Block>(sizes, last_deviation));
  const auto transformer = register_module("transformer", std::make_shared<Prefix>());
  transformer->register_module("wte", token_embedding_);
  transformer->register_module("wpe", place_embedding_);
  transformer->register_module("drop", drop_);
  transformer->register_module("h", blocks_);
  transformer->register_module("ln_f", last_norm_);
  register_module("lm_head", std::make_shared<Prefix>())->register_parameter("weight", token_embedding_->weight);
}

torch::Tensor Gpt2::forward(const torch::Tensor& tokens) {
  const std::int64_t length = tokens.size(1);
  if (length > sizes_.sequence_length) {
    throw InvalidJob{"the data has sequences of " + std::to_string(length) +
                     " tokens, but training.model.options.sequenceLength is " + std::to_string(sizes_.sequence_length)};
  }
  const torch::Tensor places = torch::arange(length, tokens.options());
  torch::Tensor state = drop_(token_embedding_(tokens) + place_embedding_(places));
  for (const auto& block : *blocks_) state = block->as<Gpt2Block>()->forward(state);
  return torch::linear(last_norm_(state), token_embedding_->weight);
}

StepOutput Gpt2::training_step(const Batch& batch, std::int64_t /*batch_index*/) {
  return loss(batch);
}

StepOutput Gpt2::validation_step(const Batch& batch, std::int64_t /*batch_index*/) {
  log("val_loss", loss(batch));
  return {};
}

torch::Tensor Gpt2::loss(const Batch& batch) {
  check_tokens(batch, "gpt2");
  return torch::cross_entropy_loss(forward(batch.inputs).flatten(0, 1), batch.targets.flatten());
}

}  // namespace trainyard::models
