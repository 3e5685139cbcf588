#pragma once

#include <trainyard/data.hpp>

#include <cstdint>
#include <string>

/// Checks of a batch against a built-in model. Each throws InvalidJob with what the model takes and what the data
/// gives. Without them torch's message would name neither, and the job would be restarted for nothing.
namespace trainyard::models {

/// "int64 [8, 1024]". Pure.
[[nodiscard]] std::string describe(const torch::Tensor& tensor);

/// The images that a classifier takes. A side of 0: any.
struct ImagesWanted {
  std::string model;
  std::int64_t channels = 3;
  std::int64_t side = 0;
  std::string advice;  ///< Says what to do where the number of channels is another.
};

/// Throws unless the inputs are floats [B, channels, H, W] and the targets classes, int64 [B].
void check_images(const Batch& batch, const ImagesWanted& wanted);

/// The pictures that a network from images to images takes, each with several target images.
struct PanelsWanted {
  std::string model;
  std::int64_t channels = 3;
  std::int64_t targets = 1;
};

/// Throws unless the inputs are floats [B, channels, H, W] and the targets floats [B, targets, channels, H, W].
void check_panels(const Batch& batch, const PanelsWanted& wanted);

/// Throws unless inputs and targets are int64 [B, T].
void check_tokens(const Batch& batch, const std::string& model);

}  // namespace trainyard::models
