#include "worker/train/open_datasets.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <optional>
#include <utility>

#include "common/try.hpp"
#include "worker/data/open_data.hpp"
#include "worker/train/check_classes.hpp"
#include "worker/train/evaluation_job.hpp"

namespace trainyard::train {

Result<Datasets> open_datasets(Module& module, const Job& job, const std::string& folder, torch::Device device) {
  const api::DataSpec& data = job.training.data;
  const DataSource source{.format = std::string{api::name_of(data.format)},
                          .folder = folder,
                          .samples = data.samples,
                          .seed = job.training.seed,
                          .device = device,
                          .options = Options{data.options.dump(), "training.data.options"}};
  std::optional<Datasets> datasets = module.open_datasets(source);
  const std::string reader = datasets ? "the model's open_datasets()" : "the format " + source.format;
  if (!datasets) datasets = TRY(data::open_data(source, data.format));
  source.options.check_all_asked(reader);
  const bool is_fit = job.training.task == api::Task::fit;
  const Dataset* const used = is_fit ? datasets->train.get() : data_of(job.training.task, *datasets);
  if (used == nullptr || used->size() <= 0)
    return fail(ErrorKind::invalid,
                fmt::format("{} gave no {} samples", reader, is_fit ? "training" : "validation or test"));
  TRY(check_classes(module, *datasets));
  return std::move(*datasets);
}

}  // namespace trainyard::train
