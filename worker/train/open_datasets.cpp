#include "worker/train/open_datasets.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "api/contract.hpp"
#include "common/try.hpp"
#include "worker/data/fetch.hpp"
#include "worker/data/open_data.hpp"
#include "worker/train/evaluation_job.hpp"
#include "worker/train/program_call.hpp"
#include "worker/train/streamed_batches.hpp"

namespace trainyard::train {
namespace {

/// So few that their product with the number of ranks has 64 bits.
constexpr std::int64_t sampler_samples_max = 1'000'000'000'000'000;

std::optional<Datasets> call_open_datasets(Module& module, const DataSource& source) {
  const ProgramCall call{"open_datasets()"};
  return module.open_datasets(source);
}

/// Returns size() of a Dataset or a Sampler.
template <typename Sized>
std::int64_t size_of(const Sized& sized, std::string_view name) {
  const ProgramCall call{"size() of the ", name};
  return sized.size();
}

/// Checks what a training set without a size excludes.
Result<void> check_streams(const api::TrainingSpec& training, const Datasets& datasets, std::string_view reader) {
  if (datasets.train != nullptr) {
    return fail(ErrorKind::invalid,
                fmt::format("{} gave two training sets, train and iterable_train: give one of them", reader));
  }
  if (datasets.sampler != nullptr) {
    return fail(ErrorKind::invalid,
                fmt::format("{} gave a sampler with iterable_train, whose samples have no numbers to draw: its streams "
                            "give the order themselves",
                            reader));
  }
  return check_steps_are_known(training);
}

template <typename Classified>
std::int64_t classes_of(const Classified& classified, std::string_view name) {
  const ProgramCall call{"classes() of the ", name};
  return classified.classes();
}

}  // namespace

Result<void> check_classes(const Module& module, const Datasets& datasets) {
  const std::int64_t known = classes_of(module, "model");
  const auto check_set = [&](std::string_view name, const auto& dataset) -> Result<void> {
    const std::int64_t found = dataset == nullptr ? 0 : classes_of(*dataset, name);
    if (known == 0 || found <= known) return {};
    return fail(ErrorKind::invalid,
                fmt::format("the {} has labels up to {}, but the model tells only {} classes apart (0 to {}); set "
                            "its option in training.model.options, or take other data",
                            name, found - 1, known, known - 1));
  };
  TRY(check_set("training set", datasets.train));
  TRY(check_set("training set", datasets.iterable_train));
  TRY(check_set("validation set", datasets.validation));
  return check_set("test set", datasets.test);
}

storage::S3Options read_options(const Job& job) {
  const api::S3Spec s3 = job.checkpoint ? job.checkpoint->s3 : api::S3Spec{};
  return {.endpoint = s3.endpoint, .region = s3.region, .path_style = s3.path_style};
}

Result<std::string> find_data(const Job& job, rank::RankLink& link, const Clock& clock,
                              const checkpoint::StartPatience& patience) {
  const api::DataSpec& data = job.training.data;
  if (data.uri.empty()) return data.path;
  constexpr std::string_view file_scheme = "file://";
  if (data.uri.starts_with(file_scheme)) return data.uri.substr(file_scheme.size());
  const auto store = TRY(storage::open_store(data.uri, read_options(job)));
  const auto folder = data::cache_folder(job.cache_folder, data.uri);
  const auto show_life = [&link] {
    link.beat();
    if (link.is_stop_requested()) {
      link.exit(
          {contract::exit_preempted, "Preempted", "stopped as asked while fetching data; nothing was trained yet", {}});
    }
  };
  return checkpoint::ask_patiently(patience, clock, checkpoint::StartCall::state,
                                   [&] { return data::fetch(*store, folder, job.cache_modes, show_life); })
      .map([&] { return folder.string(); });
}

Result<Datasets> open_datasets(Module& module, const Job& job, const std::string& folder, torch::Device device,
                               const data::GroupRank& self) {
  const api::DataSpec& data = job.training.data;
  const DataSource source{.format = std::string{api::name_of(data.format)},
                          .folder = folder,
                          .samples = data.samples,
                          .seed = job.training.seed,
                          .device = device,
                          .options = Options{data.options.dump(), "training.data.options"},
                          .rank = self.rank,
                          .world_size = self.world_size};
  std::optional<Datasets> datasets = call_open_datasets(module, source);
  const std::string reader = datasets ? "the model's open_datasets()" : "the format " + source.format;
  if (!datasets) datasets = TRY(data::open_data(source, data.format));
  source.options.check_all_asked(reader);
  const bool is_fit = job.training.task == api::Task::fit;
  if (is_fit && datasets->iterable_train != nullptr) {
    TRY(check_streams(job.training, *datasets, reader));
    TRY(check_classes(module, *datasets));
    return std::move(*datasets);
  }
  const Dataset* const used = is_fit ? datasets->train.get() : data_of(job.training.task, *datasets);
  if (used == nullptr || size_of(*used, "data set") <= 0)
    return fail(ErrorKind::invalid,
                fmt::format("{} gave no {} samples", reader, is_fit ? "training" : "validation or test"));
  if (const Sampler* const sampler = datasets->sampler.get(); is_fit && sampler != nullptr) {
    const std::int64_t samples = size_of(*sampler, "sampler");
    if (samples <= 0) {
      return fail(ErrorKind::invalid,
                  fmt::format("the sampler of {} has {} samples an epoch, and needs at least 1", reader, samples));
    }
    if (samples > sampler_samples_max) {
      return fail(ErrorKind::invalid, fmt::format("the sampler of {} has {} samples an epoch: at most {} are allowed",
                                                  reader, samples, sampler_samples_max));
    }
  }
  TRY(check_classes(module, *datasets));
  return std::move(*datasets);
}

}  // namespace trainyard::train
