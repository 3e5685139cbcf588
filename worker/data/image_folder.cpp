#include "worker/data/image_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>

#include "common/nearest_word.hpp"
#include "common/try.hpp"
#include "common/word_hash.hpp"
#include "worker/data/list_folder.hpp"

namespace trainyard::data {
namespace {

/// The names of the folders in `folder`. Files beside them belong to no class and are not looked at.
Result<std::vector<std::string>> list_classes(const std::filesystem::path& folder, const std::filesystem::path& root) {
  auto entries = TRY(list_folder(folder, root));
  std::vector<std::string> classes;
  for (FolderEntry& entry : entries) {
    if (entry.is_folder) classes.push_back(std::move(entry.name));
  }
  if (classes.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("{} has no folders; it must have one for each class, with its images", folder.string()));
  }
  return classes;
}

Result<std::size_t> add_class(ImageFolder& images, const std::string& name, std::int64_t label,
                              const std::filesystem::path& root) {
  const auto names = TRY(list_images(images.folder / name, root));
  for (const std::string& file : names) {
    images.files.push_back(fmt::format("{}/{}", name, file));
    images.labels.push_back(label);
  }
  return names.size();
}

}  // namespace

Result<ImageFolder> list_training_images(const std::filesystem::path& root) {
  ImageFolder images{.folder = root / "train", .classes = {}, .files = {}, .labels = {}};
  images.classes = TRY(list_classes(images.folder, root));
  for (std::size_t label = 0; label < images.classes.size(); ++label) {
    const std::string& name = images.classes[label];
    const auto count = TRY(add_class(images, name, static_cast<std::int64_t>(label), root));
    if (count == 0) {
      return fail(ErrorKind::invalid,
                  fmt::format("the class {} has no .jpg, .jpeg or .png file", (images.folder / name).string()));
    }
  }
  return images;
}

Result<ImageFolder> list_validation_images(const std::filesystem::path& root, const ImageFolder& training) {
  ImageFolder images{.folder = {}, .classes = training.classes, .files = {}, .labels = {}};
  images.folder = TRY(find_validation_folder(root));
  const auto classes = TRY(list_classes(images.folder, root));
  for (const std::string& name : classes) {
    const auto found = std::ranges::lower_bound(training.classes, name);
    if (found == training.classes.end() || *found != name) {
      const std::string near = nearest_word(name, training.classes);
      return fail(ErrorKind::invalid,
                  fmt::format("{} is a class that {} does not have{}", (images.folder / name).string(),
                              training.folder.string(), near.empty() ? "" : fmt::format("; did you mean {}?", near)));
    }
    TRY(add_class(images, name, found - training.classes.begin(), root));
  }
  if (images.files.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("{} has no .jpg, .jpeg or .png file in any class", images.folder.string()));
  }
  return images;
}

std::string checksum_of(const ImageFolder& images) {
  std::uint64_t hash = word_hash_start;
  for (const auto* names : {&images.classes, &images.files}) {
    for (const std::string& name : *names)
      hash = word_hash(hash, std::as_bytes(std::span{name.c_str(), name.size() + 1}));
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace trainyard::data
