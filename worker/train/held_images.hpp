#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/snapshot/unencoded_snapshot.hpp"

namespace trainyard::train {

/// The last image of each name. Used from the training thread.
class HeldImages {
 public:
  /// `place` says in a warning where the images are shown: "snapshot".
  HeldImages(std::string place, const snapshot::Limits& limits) : place_{std::move(place)}, limits_{limits} {}

  /// Keeps a copy on the image's device, in place of the previous image of that name. An image without room is skipped;
  /// only the first such image is logged.
  void add(std::string_view name, const torch::Tensor& image, std::int64_t step);
  [[nodiscard]] bool is_empty() const { return images_.empty(); }
  /// The images, copied to the host, by name. Waits for the device; afterwards none is held.
  [[nodiscard]] std::vector<snapshot::UnencodedImage> take();

 private:
  struct Held {
    std::int64_t step = 0;
    torch::Tensor bytes;  // uint8 [N, C, H, W], on the image's device.
  };

  void warn_of_no_room(std::string_view name, std::int64_t step);

  const std::string place_;
  const snapshot::Limits limits_;
  std::map<std::string, Held, std::less<>> images_;
  std::size_t image_bytes_ = 0;  // Size of images_.
  bool has_warned_of_no_room_ = false;
};

}  // namespace trainyard::train
