#pragma once

#include <filesystem>
#include <string_view>

#include "common/result.hpp"
#include "worker/data/labeled_images.hpp"

namespace trainyard::data {

/// The label that a batch of CIFAR-100 has of the two of each image: one of 20 superclasses, or one of 100 classes.
enum class Cifar100Label { coarse, fine };

/// The binary version of CIFAR-10 in `folder`: data_batch_1.bin to data_batch_5.bin for training, test_batch.bin for
/// validation. Images are uint8 [N, 3, 32, 32]. Every file may have any number of samples. not_found names the first
/// file that is missing; invalid: a file is too large; corrupt: a file ends within a sample, or has a label out of
/// range. Source: "The CIFAR-10 dataset", cs.toronto.edu/~kriz/cifar.html.
[[nodiscard]] Result<LabeledImages> read_cifar10(const std::filesystem::path& folder, Part part);

/// As read_cifar10(), of CIFAR-100: train.bin and test.bin.
[[nodiscard]] Result<LabeledImages> read_cifar100(const std::filesystem::path& folder, Part part, Cifar100Label label);

}  // namespace trainyard::data
