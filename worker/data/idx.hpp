#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "common/result.hpp"
#include "worker/data/labeled_images.hpp"

namespace trainyard::data {

/// The array in an IDX file of unsigned bytes (type 0x08), plain or gzip-compressed: uint8, with the file's
/// `dimensions` dimensions. not_found: no such file. invalid: another format, type or number of dimensions. corrupt:
/// shorter or longer than its header says. Source: "The IDX file format", yann.lecun.com/exdb/mnist.
[[nodiscard]] Result<torch::Tensor> read_idx(const std::filesystem::path& file, std::int64_t dimensions);

/// The pair `<part>-images-idx3-ubyte` and `<part>-labels-idx1-ubyte` in `folder`, each plain or with `.gz`; MNIST's
/// parts are "train" and "t10k". not_found names the folder and the files expected there; invalid also when the numbers
/// of images and labels differ.
[[nodiscard]] Result<LabeledImages> read_labeled_images(const std::filesystem::path& folder, std::string_view part);

}  // namespace trainyard::data
