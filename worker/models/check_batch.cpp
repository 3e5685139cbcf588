#include "worker/models/check_batch.hpp"

#include <torch/types.h>

#include <sstream>

namespace trainyard::models {
namespace {

[[noreturn]] void refuse(const Batch& batch, const std::string& model, const std::string& wanted,
                         const std::string& advice) {
  throw InvalidJob{"the model " + model + " takes " + wanted + ", but the data gives inputs " + describe(batch.inputs) +
                   " and targets " + describe(batch.targets) + "; " + advice};
}

bool is_int64(const torch::Tensor& tensor, std::int64_t dimensions) {
  return tensor.defined() && tensor.scalar_type() == torch::kInt64 && tensor.dim() == dimensions;
}

}  // namespace

std::string describe(const torch::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  std::ostringstream text;
  if (tensor.is_floating_point()) {
    text << "float";
  } else if (tensor.scalar_type() == torch::kInt64) {
    text << "int64";
  } else {
    text << tensor.scalar_type();
  }
  text << " " << tensor.sizes();
  return text.str();
}

void check_images(const Batch& batch, const ImagesWanted& wanted) {
  const torch::Tensor& images = batch.inputs;
  const std::string side = std::to_string(wanted.side);
  const std::string shape =
      "[B, " + std::to_string(wanted.channels) + ", " + (wanted.side == 0 ? "H, W" : side + ", " + side) + "]";
  const std::string takes = "images, float " + shape + ", and their classes, int64 [B]";
  const bool are_images = images.defined() && images.is_floating_point() && images.dim() == 4;
  if (!are_images || !is_int64(batch.targets, 1))
    refuse(batch, wanted.model, takes, "take another model or another training.data.format");
  const bool has_side = wanted.side == 0 || (images.size(2) == wanted.side && images.size(3) == wanted.side);
  if (images.size(1) != wanted.channels || !has_side) refuse(batch, wanted.model, takes, wanted.advice);
}

void check_panels(const Batch& batch, const PanelsWanted& wanted) {
  const torch::Tensor &images = batch.inputs, &targets = batch.targets;
  const auto are_images = [&](const torch::Tensor& tensor, std::int64_t dimensions) {
    return tensor.defined() && tensor.is_floating_point() && tensor.dim() == dimensions &&
           tensor.size(-3) == wanted.channels;
  };
  const bool fits = are_images(images, 4) && are_images(targets, 5) && targets.size(1) == wanted.targets &&
                    images.sizes().slice(2) == targets.sizes().slice(3);
  if (fits) return;
  const std::string channels = std::to_string(wanted.channels), count = std::to_string(wanted.targets);
  refuse(batch, wanted.model,
         "images, float [B, " + channels + ", H, W], and " + count + " target images of each, float [B, " + count +
             ", " + channels + ", H, W]",
         "set training.data.format to imagePairs and its option panels to " + std::to_string(wanted.targets + 1));
}

void check_tokens(const Batch& batch, const std::string& model) {
  if (is_int64(batch.inputs, 2) && is_int64(batch.targets, 2) && batch.inputs.sizes() == batch.targets.sizes()) return;
  refuse(batch, model, "tokens and the tokens after them, int64 [B, T] both",
         "set training.data.format to tokens, or take another model");
}

}  // namespace trainyard::models
