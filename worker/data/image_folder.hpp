#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::data {

/// The images of a folder with a folder for each class. Equal on every machine: classes and files are sorted by name.
struct ImageFolder {
  std::filesystem::path folder;
  std::vector<std::string> classes;  ///< By label.
  std::vector<std::string> files;    ///< CLASS/NAME, by sample.
  std::vector<std::int64_t> labels;  ///< By sample.
};

/// The training set root/train. not_found: there is none. invalid: a class has no image, a file of a class is a folder,
/// or a link leads out of `root`.
[[nodiscard]] Result<ImageFolder> list_training_images(const std::filesystem::path& root);
/// The validation set root/val or root/validation, with the labels of `training`. It may lack classes. invalid also for
/// a class that `training` does not have.
[[nodiscard]] Result<ImageFolder> list_validation_images(const std::filesystem::path& root,
                                                         const ImageFolder& training);

/// A checksum of the names of classes and files.
[[nodiscard]] std::string checksum_of(const ImageFolder& images);

}  // namespace trainyard::data
