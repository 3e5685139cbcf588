#include "worker/models/deepliif.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "worker/models/check_batch.hpp"

namespace trainyard::models {
namespace {

constexpr std::int64_t modalities_max = 14;
constexpr std::int64_t filters_max = 4096;
constexpr std::int64_t shown_side_max = 256;
constexpr std::string_view discriminators_turn = "D";
constexpr std::string_view generators_turn = "G";

Norm read_norm(const Options& options) {
  const std::string name = options.text("norm", "batch", {"batch", "instance", "none"});
  if (name == "batch") return Norm::batch;
  return name == "instance" ? Norm::instance : Norm::none;
}

std::int64_t read_channels(const Options& options) {
  const std::int64_t channels = options.integer("channels", 3);
  if (channels == 1 || channels == 3) return channels;
  throw InvalidJob{"training.model.options.channels: must be 1 or 3, got " + std::to_string(channels)};
}

GanMode read_mode(const Options& options, std::string_view name, const std::string& otherwise) {
  return options.text(name, otherwise, {"vanilla", "lsgan"}) == "vanilla" ? GanMode::vanilla : GanMode::lsgan;
}

std::vector<double> read_weights(const Options& options, const std::string& name, std::vector<double> otherwise) {
  const std::size_t count = otherwise.size();
  std::vector<double> weights = options.numbers(name, std::move(otherwise), {.min = 0});
  if (weights.size() == count) return weights;
  throw InvalidJob{"training.model.options." + name + ": must be " + std::to_string(count) + " numbers, got " +
                   std::to_string(weights.size())};
}

/// The published weights of four modalities; else equal ones.
std::vector<double> segmentation_weights(std::int64_t modalities) {
  if (modalities == 4) return {0.25, 0.15, 0.25, 0.1, 0.25};
  return std::vector<double>(static_cast<std::size_t>(modalities + 1), 1.0 / static_cast<double>(modalities + 1));
}

void append(std::vector<torch::Tensor>& parameters, const std::vector<std::shared_ptr<ImageNetwork>>& networks) {
  for (const auto& network : networks)
    for (const torch::Tensor& parameter : network->parameters()) parameters.push_back(parameter);
}

/// The first image of a batch, for a snapshot: from 0 to 1, and small enough that all images have room in it.
torch::Tensor shown(const torch::Tensor& images) {
  const torch::Tensor image = images.slice(0, 0, 1).detach();
  const std::int64_t side = std::max(image.size(2), image.size(3));
  const std::int64_t shrink = (side + shown_side_max - 1) / shown_side_max;
  return (shrink > 1 ? torch::avg_pool2d(image, shrink) : image)[0].add(1).div(2);
}

}  // namespace

DeepLiifSettings read_deepliif_settings(const Options& options) {
  DeepLiifSettings settings;
  settings.modalities = options.integer("modalitiesNo", settings.modalities, {.min = 1, .max = modalities_max});
  settings.has_segmentation = options.boolean("segGen", settings.has_segmentation);
  settings.image_channels = read_channels(options);
  settings.generator = options.text("netG", settings.generator);
  settings.segmentation_generator = options.text("netGs", settings.segmentation_generator);
  settings.generator_filters = options.integer("ngf", settings.generator_filters, {.min = 1, .max = filters_max});
  settings.discriminator_filters =
      options.integer("ndf", settings.discriminator_filters, {.min = 1, .max = filters_max});
  settings.discriminator_layers = options.integer("nLayersD", settings.discriminator_layers, {.min = 1, .max = 8});
  settings.norm = read_norm(options);
  settings.has_dropout = options.boolean("dropout", settings.has_dropout);
  settings.is_reflected = options.text("padding", "zero", {"zero", "reflect"}) == "reflect";
  settings.l1_factor = options.number("lambdaL1", settings.l1_factor, {.min = 0});
  settings.mode = read_mode(options, "ganMode", "vanilla");
  settings.segmentation_mode = read_mode(options, "ganModeS", "lsgan");
  const auto heads = static_cast<std::size_t>(settings.modalities + (settings.has_segmentation ? 1 : 0));
  const std::vector<double> equal(heads, 1.0 / static_cast<double>(heads));
  settings.segmentation_weights = read_weights(options, "segWeights", segmentation_weights(settings.modalities));
  settings.generator_weights = read_weights(options, "lossWeightsG", equal);
  settings.discriminator_weights = read_weights(options, "lossWeightsD", equal);
  return settings;
}

DeepLiif::DeepLiif(DeepLiifSettings settings, const Options& options)
    : settings_{std::move(settings)},
      generator_lr_{options.number("lrG", 0.0, {.min = 0})},
      discriminator_lr_{options.number("lrD", 0.0, {.min = 0})} {
  const std::int64_t channels = settings_.image_channels;
  const NetworkSize generator{.in = channels,
                              .out = channels,
                              .filters = settings_.generator_filters,
                              .norm = settings_.norm,
                              .has_dropout = settings_.has_dropout,
                              .is_reflected = settings_.is_reflected};
  NetworkSize segmenter = generator;
  segmenter.is_reflected = true;
  const NetworkSize discriminator{
      .in = 2 * channels, .filters = settings_.discriminator_filters, .norm = settings_.norm};
  for (std::int64_t number = 1; number <= settings_.modalities; ++number) {
    const std::string& head = heads_.emplace_back(std::to_string(number));
    generators_.push_back(
        register_module("G" + head, make_generator(settings_.generator, generator, "training.model.options.netG")));
    discriminators_.push_back(
        register_module("D" + head, make_discriminator(settings_.discriminator_layers, discriminator)));
  }
  if (!settings_.has_segmentation) return;
  heads_.emplace_back("S");
  for (std::int64_t number = 0; number <= settings_.modalities; ++number) {
    const std::string name = "S" + std::to_string(number);
    segmenters_.push_back(register_module(
        "G" + name, make_generator(settings_.segmentation_generator, segmenter, "training.model.options.netGs")));
    segmented_discriminators_.push_back(
        register_module("D" + name, make_discriminator(settings_.discriminator_layers, discriminator)));
  }
}

std::vector<NamedOptimizer> DeepLiif::configure_named_optimizers(const OptimizerSpec& spec) {
  ParameterGroup discriminators, generators;
  append(discriminators.parameters, discriminators_);
  append(discriminators.parameters, segmented_discriminators_);
  append(generators.parameters, generators_);
  append(generators.parameters, segmenters_);
  if (discriminator_lr_ > 0) discriminators.lr = discriminator_lr_;
  if (generator_lr_ > 0) generators.lr = generator_lr_;
  std::vector<NamedOptimizer> optimizers;
  optimizers.push_back(make_named_optimizer(std::string{discriminators_turn}, spec, {discriminators}, *this));
  optimizers.push_back(make_named_optimizer(std::string{generators_turn}, spec, {generators}, *this));
  return optimizers;
}

StepOutput DeepLiif::training_step(const Batch& batch, std::int64_t /*batch_index*/) {
  if (optimizer_turn() == discriminators_turn) {
    check(batch);
    fakes_ = make_fakes(batch.inputs);
    return discriminator_loss(batch);
  }
  std::vector<torch::Tensor> judges;
  append(judges, discriminators_);
  append(judges, segmented_discriminators_);
  const FrozenParameters frozen{judges};
  torch::Tensor loss = generator_loss(batch);
  show(batch);
  fakes_.clear();
  return loss;
}

StepOutput DeepLiif::validation_step(const Batch& batch, std::int64_t /*batch_index*/) {
  check(batch);
  const std::vector<torch::Tensor> fakes = make_fakes(batch.inputs);
  torch::Tensor sum;
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    const torch::Tensor loss = l1_loss(batch, head, fakes[head]);
    log("G_L1_" + heads_[head] + "_val", loss);
    const torch::Tensor part = loss * settings_.generator_weights[head];
    sum = sum.defined() ? sum + part : part;
  }
  log("val_loss", sum);
  return {};
}

std::vector<torch::Tensor> DeepLiif::make_fakes(const torch::Tensor& input) {
  std::vector<torch::Tensor> fakes;
  for (const auto& generator : generators_) fakes.push_back(generator->forward(input));
  if (segmenters_.empty()) return fakes;
  torch::Tensor segmentation;
  for (std::size_t number = 0; number < segmenters_.size(); ++number) {
    const torch::Tensor& seen = number == 0 ? input : fakes[number - 1];
    const torch::Tensor part = segmenters_[number]->forward(seen) * settings_.segmentation_weights[number];
    segmentation = segmentation.defined() ? segmentation + part : part;
  }
  fakes.push_back(segmentation);
  return fakes;
}

torch::Tensor DeepLiif::judge(const Batch& batch, std::size_t head, const torch::Tensor& image) {
  if (!is_segmentation(head)) return discriminators_[head]->forward(torch::cat({batch.inputs, image}, 1));
  torch::Tensor logits;
  for (std::size_t number = 0; number < segmented_discriminators_.size(); ++number) {
    const torch::Tensor condition =
        number == 0 ? batch.inputs : batch.targets.select(1, static_cast<std::int64_t>(number) - 1);
    const torch::Tensor part = segmented_discriminators_[number]->forward(torch::cat({condition, image}, 1)) *
                               settings_.segmentation_weights[number];
    logits = logits.defined() ? logits + part : part;
  }
  return logits;
}

torch::Tensor DeepLiif::gan_loss(std::size_t head, const torch::Tensor& logits, bool is_real) const {
  const torch::Tensor wanted = torch::full_like(logits, is_real ? 1.0 : 0.0);
  const GanMode mode = is_segmentation(head) ? settings_.segmentation_mode : settings_.mode;
  return mode == GanMode::lsgan ? torch::mse_loss(logits, wanted)
                                : torch::binary_cross_entropy_with_logits(logits, wanted);
}

torch::Tensor DeepLiif::l1_loss(const Batch& batch, std::size_t head, const torch::Tensor& fake) const {
  return torch::smooth_l1_loss(fake, batch.targets.select(1, static_cast<std::int64_t>(head))) * settings_.l1_factor;
}

torch::Tensor DeepLiif::discriminator_loss(const Batch& batch) {
  torch::Tensor sum;
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    const torch::Tensor real = batch.targets.select(1, static_cast<std::int64_t>(head));
    const torch::Tensor of_fake = gan_loss(head, judge(batch, head, fakes_[head].detach()), false);
    const torch::Tensor of_real = gan_loss(head, judge(batch, head, real), true);
    log("D_fake_" + heads_[head], of_fake);
    log("D_real_" + heads_[head], of_real);
    const torch::Tensor part = (of_fake + of_real) * (0.5 * settings_.discriminator_weights[head]);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

torch::Tensor DeepLiif::generator_loss(const Batch& batch) {
  torch::Tensor sum;
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    const torch::Tensor gan = gan_loss(head, judge(batch, head, fakes_[head]), true);
    const torch::Tensor l1 = l1_loss(batch, head, fakes_[head]);
    log("G_GAN_" + heads_[head], gan);
    log("G_L1_" + heads_[head], l1);
    const torch::Tensor part = (gan + l1) * settings_.generator_weights[head];
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

void DeepLiif::show(const Batch& batch) {
  log_image("real_A", shown(batch.inputs));
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    log_image("fake_B_" + heads_[head], shown(fakes_[head]));
    log_image("real_B_" + heads_[head], shown(batch.targets.select(1, static_cast<std::int64_t>(head))));
  }
}

void DeepLiif::check(const Batch& batch) const {
  const auto heads = static_cast<std::int64_t>(heads_.size());
  const std::int64_t channels = settings_.image_channels;
  check_panels(batch, {.model = "deepliif", .channels = channels, .targets = heads});
  std::int64_t unit = side_unit(settings_.generator);
  if (settings_.has_segmentation) unit = std::max(unit, side_unit(settings_.segmentation_generator));
  const std::int64_t side_min = discriminated_side_min(settings_.discriminator_layers);
  for (const std::int64_t side : {batch.inputs.size(2), batch.inputs.size(3)}) {
    if (side % unit == 0 && side >= side_min) continue;
    throw InvalidJob{"the model deepliif takes images whose sides are multiples of " + std::to_string(unit) +
                     " and at least " + std::to_string(side_min) + ", but the data gives " + describe(batch.inputs) +
                     "; set training.data.options.size, or netG, netGs and nLayersD in training.model.options"};
  }
}

}  // namespace trainyard::models
