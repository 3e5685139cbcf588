#include "worker/data/cifar.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/data/read_file.hpp"

namespace trainyard::data {
namespace {

constexpr std::int64_t cifar_side = 32;
constexpr std::int64_t cifar_image_bytes = 3 * cifar_side * cifar_side;
constexpr std::int64_t cifar_file_bytes_max = std::int64_t{1} << 30;  // Six times the largest published file.

/// The labels before each image, of which one is read.
struct CifarLabels {
  std::int64_t bytes = 1;
  std::int64_t place = 0;
  std::int64_t classes = 10;
};

Result<LabeledImages> read_cifar_file(const std::filesystem::path& file, const CifarLabels& labels) {
  auto bytes = TRY(read_file(file, cifar_file_bytes_max));
  const std::int64_t sample_bytes = labels.bytes + cifar_image_bytes;
  const auto file_bytes = static_cast<std::int64_t>(bytes.size());
  if (file_bytes % sample_bytes != 0) {
    return fail(
        ErrorKind::corrupt,
        fmt::format("{} has {} bytes, which are {} samples of {} bytes and {} bytes more: it was cut off, or is "
                    "another version of CIFAR",
                    file.string(), file_bytes, file_bytes / sample_bytes, sample_bytes, file_bytes % sample_bytes));
  }
  const torch::Tensor samples =
      torch::from_blob(bytes.data(), {file_bytes / sample_bytes, sample_bytes}, torch::kUInt8);
  torch::Tensor classes = samples.select(1, labels.place).to(torch::kInt64);
  const torch::Tensor wrong = classes.ge(labels.classes).nonzero();
  if (wrong.numel() > 0) {
    const auto sample = wrong[0][0].item<std::int64_t>();
    return fail(ErrorKind::corrupt, fmt::format("{}: the label of sample {} is {}, not one of 0 to {}", file.string(),
                                                sample, classes[sample].item<std::int64_t>(), labels.classes - 1));
  }
  return LabeledImages{
      .images = samples.slice(1, labels.bytes).reshape({-1, 3, cifar_side, cifar_side}).clone(),
      .labels = std::move(classes),
  };
}

/// A set of another size is trained on, because people store their own images in CIFAR's form. It may also be a copy
/// that lacks whole samples.
void warn_of_size(const LabeledImages& read, const std::filesystem::path& folder, Part part) {
  const std::int64_t published = part == Part::train ? 50'000 : 10'000;
  if (read.labels.size(0) == published) return;
  logging::warn("a set in CIFAR's form does not have the published number of samples",
                {{"folder", folder.string()},
                 {"set", part == Part::train ? "train" : "validation"},
                 {"samples", read.labels.size(0)},
                 {"published", published}});
}

Result<LabeledImages> read_cifar_files(const std::filesystem::path& folder, Part part,
                                       const std::vector<std::string>& names, const CifarLabels& labels) {
  std::vector<torch::Tensor> images;
  std::vector<torch::Tensor> classes;
  for (const std::string& name : names) {
    auto read = read_cifar_file(folder / name, labels);
    if (!read && read.error().kind == ErrorKind::not_found) {
      return fail(ErrorKind::not_found,
                  fmt::format("the data path {} does not hold {}; set training.data.path to the folder with the .bin "
                              "files of CIFAR's binary version",
                              folder.string(), name));
    }
    TRY(read);
    images.push_back(std::move(read->images));
    classes.push_back(std::move(read->labels));
  }
  LabeledImages read{.images = torch::cat(images), .labels = torch::cat(classes)};
  warn_of_size(read, folder, part);
  return read;
}

}  // namespace

Result<LabeledImages> read_cifar10(const std::filesystem::path& folder, Part part) {
  if (part == Part::validation) return read_cifar_files(folder, part, {"test_batch.bin"}, {});
  std::vector<std::string> names;
  for (int number = 1; number <= 5; ++number) names.push_back(fmt::format("data_batch_{}.bin", number));
  return read_cifar_files(folder, part, names, {});
}

Result<LabeledImages> read_cifar100(const std::filesystem::path& folder, Part part, Cifar100Label label) {
  const bool is_fine = label == Cifar100Label::fine;
  return read_cifar_files(folder, part, {part == Part::train ? "train.bin" : "test.bin"},
                          {.bytes = 2, .place = is_fine ? 1 : 0, .classes = is_fine ? 100 : 20});
}

}  // namespace trainyard::data
