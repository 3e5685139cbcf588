#pragma once

#include <torch/nn.h>
#include <trainyard/trainyard.hpp>

#include <cstdint>

namespace trainyard::models {

/// The sizes of a GPT-2. The defaults are those of the smallest published one, of 124,439,808 parameters.
struct Gpt2Sizes {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t vocabulary = 50'257;
  std::int64_t sequence_length = 1024;  ///< Tokens of the longest sequence.
  double dropout = 0.1;
};

/// The options layers, heads, width, vocabulary, sequenceLength and dropout. Throws InvalidJob.
[[nodiscard]] Gpt2Sizes read_gpt2_sizes(const Options& options);

/// A language model that predicts the next token, with the names, shapes and first values of the parameters of Hugging
/// Face's GPT2LMHeadModel: linear layers have weights [in, out], and lm_head.weight is transformer.wte.weight. A
/// TrainingJob names it "gpt2". Source: Radford et al. 2019.
class Gpt2 final : public Module {
 public:
  explicit Gpt2(const Options& options) : Gpt2{read_gpt2_sizes(options)} {}
  explicit Gpt2(const Gpt2Sizes& sizes);

  /// tokens: int64 [B, T], T up to sequence_length, each in [0, vocabulary). Returns logits, float [B, T, vocabulary].
  /// Throws InvalidJob for a longer sequence.
  torch::Tensor forward(const torch::Tensor& tokens);

  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override;
  /// Logs val_loss, the mean over the tokens.
  StepOutput validation_step(const Batch& batch, std::int64_t batch_index) override;
  [[nodiscard]] std::int64_t classes() const override { return sizes_.vocabulary; }

 private:
  [[nodiscard]] torch::Tensor loss(const Batch& batch);

  Gpt2Sizes sizes_;
  torch::nn::Embedding token_embedding_;
  torch::nn::Embedding place_embedding_;
  torch::nn::Dropout drop_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm last_norm_;
};

}  // namespace trainyard::models
