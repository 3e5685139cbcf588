#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>

namespace trainyard::data {

/// The picture in `file`: uint8 [channels, H, W]. channels: 3, or 1 for gray with the weights of ITU-R 601. Throws
/// InvalidJob, naming the file, where the file is none that decode_image() reads; std::runtime_error where it cannot be
/// read, which another attempt may do. May be called by several threads.
[[nodiscard]] torch::Tensor load_picture(const std::filesystem::path& file, std::int64_t channels);

}  // namespace trainyard::data
