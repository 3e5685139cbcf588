#pragma once

#include <torch/types.h>

#include <trainyard/module.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/models/image_networks.hpp"

namespace trainyard::models {

enum class GanMode { vanilla, lsgan };

/// The model's options, described in docs/models.md. Their names are DeepLIIF's.
struct DeepLiifSettings {
  std::int64_t modalities = 4;
  bool has_segmentation = true;
  std::int64_t image_channels = 3;
  std::string generator = "resnet_9blocks";
  std::string segmentation_generator = "unet_512";
  std::int64_t generator_filters = 64;
  std::int64_t discriminator_filters = 64;
  std::int64_t discriminator_layers = 4;
  Norm norm = Norm::batch;
  bool has_dropout = true;
  /// True when the modalities' generators pad by reflection. The generators of segmentations always do.
  bool is_reflected = false;
  double l1_factor = 100.0;
  GanMode mode = GanMode::vanilla;
  GanMode segmentation_mode = GanMode::lsgan;
  std::vector<double> segmentation_weights;  ///< Weights of the input's segmentation, then of each modality's.
  std::vector<double> generator_weights;     ///< Weights of each modality's losses, then of the segmentation's.
  std::vector<double> discriminator_weights;
};

/// Throws InvalidJob for a wrong option.
[[nodiscard]] DeepLiifSettings read_deepliif_settings(const Options& options);

/// DeepLIIF (Ghahremani et al. 2022): generators G1, G2, ... make images of several modalities from one, generators
/// GS0, GS1, ... make a segmentation from the input and from each of those, and a conditional PatchGAN discriminator
/// beside each generator judges it. A TrainingJob names it "deepliif".
///
/// A batch has inputs, float [B, C, H, W], and targets, float [B, heads, C, H, W]: the modalities, then the
/// segmentation; all from -1 to 1, as the format imagePairs gives them with a mean and std of 0.5.
class DeepLiif final : public Module {
 public:
  explicit DeepLiif(const Options& options) : DeepLiif{read_deepliif_settings(options), options} {}

  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override;
  /// Logs val_loss, the weighted sum of the G_L1 losses, and each of these as G_L1_NAME_val.
  StepOutput validation_step(const Batch& batch, std::int64_t batch_index) override;
  /// D, then G: the optimizer of all discriminators, and that of all generators.
  [[nodiscard]] std::vector<NamedOptimizer> configure_named_optimizers(const OptimizerSpec& spec) override;

 private:
  DeepLiif(DeepLiifSettings settings, const Options& options);

  /// An image for each head: of the modalities, then the segmentation.
  [[nodiscard]] std::vector<torch::Tensor> make_fakes(const torch::Tensor& input);
  /// The discriminators' logits for `image` as head number `head` of the batch.
  [[nodiscard]] torch::Tensor judge(const Batch& batch, std::size_t head, const torch::Tensor& image);
  [[nodiscard]] torch::Tensor gan_loss(std::size_t head, const torch::Tensor& logits, bool is_real) const;
  [[nodiscard]] torch::Tensor l1_loss(const Batch& batch, std::size_t head, const torch::Tensor& fake) const;
  [[nodiscard]] torch::Tensor discriminator_loss(const Batch& batch);
  [[nodiscard]] torch::Tensor generator_loss(const Batch& batch);
  void show(const Batch& batch);
  void check(const Batch& batch) const;
  [[nodiscard]] bool is_segmentation(std::size_t head) const { return head == generators_.size(); }

  DeepLiifSettings settings_;
  double generator_lr_ = 0.0;  // 0: that of the job's optimizer, like the next
  double discriminator_lr_ = 0.0;
  std::vector<std::string> heads_;                         // "1", "2", ..., "S"
  std::vector<std::shared_ptr<ImageNetwork>> generators_;  // by modality, like the next
  std::vector<std::shared_ptr<ImageNetwork>> discriminators_;
  std::vector<std::shared_ptr<ImageNetwork>> segmenters_;                // of the input, then of each modality
  std::vector<std::shared_ptr<ImageNetwork>> segmented_discriminators_;  // one for each segmenter
  std::vector<torch::Tensor> fakes_;  // from the discriminators' turn to the generators'
};

}  // namespace trainyard::models
