#include "worker/data/open_data.hpp"

#include <algorithm>
#include <utility>

#include "common/try.hpp"
#include "worker/data/idx.hpp"
#include "worker/data/image_dataset.hpp"
#include "worker/data/synthetic.hpp"

namespace trainyard::data {
namespace {

std::unique_ptr<Dataset> make_dataset(LabeledImages part, torch::Device device) {
  return std::make_unique<ImageDataset>(std::move(part.images), std::move(part.labels), device);
}

std::unique_ptr<Dataset> make_synthetic(const DataSource& source, Part part) {
  const bool is_train = part == Part::train;
  const std::int64_t samples = is_train ? source.samples : std::max<std::int64_t>(1, source.samples / 6);
  return make_dataset(make_synthetic_images(samples, source.seed, is_train ? 0 : 1), source.device);
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_data(const DataSource& source, api::DataFormat format, Part part) {
  switch (format) {
    case api::DataFormat::synthetic:
      return make_synthetic(source, part);
    case api::DataFormat::idx: {
      auto images = TRY(read_labeled_images(source.folder, part == Part::train ? "train" : "t10k"));
      return make_dataset(std::move(images), source.device);
    }
    default: break;
  }
  return fail(ErrorKind::invalid, "training.data.format is unknown");
}

}  // namespace trainyard::data
