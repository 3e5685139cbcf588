#include "worker/train/agree_on_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/run/agreement.hpp"
#include "common/try.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

DataSummary summary_of(const Dataset& dataset) {
  const ProgramCall call{"size(), classes() or id() of a data set"};
  return {.samples = dataset.size(), .classes = dataset.classes(), .id = dataset.id()};
}

DataSummary summary_of(const IterableDataset& dataset) {
  const ProgramCall call{"classes(), id() or is_interleaved() of the training set"};
  return {.classes = dataset.classes(), .id = dataset.id(), .is_interleaved = dataset.is_interleaved()};
}

nlohmann::json object_of(const DataSummary& data) {
  nlohmann::json object{{"samples", data.samples}, {"classes", data.classes}, {"id", data.id}};
  if (data.is_interleaved) object["isInterleaved"] = *data.is_interleaved;
  return object;
}

DataSummary summary_from(const nlohmann::json& object) {
  DataSummary data{.samples = object.at("samples").get<std::int64_t>(),
                   .classes = object.at("classes").get<std::int64_t>(),
                   .id = object.at("id").get<std::string>()};
  if (object.contains("isInterleaved")) data.is_interleaved = object.at("isInterleaved").get<bool>();
  return data;
}

RankData rank_data_from(const nlohmann::json& object) {
  RankData data;
  if (object.contains("train")) data.train = summary_from(object.at("train"));
  if (object.contains("test")) data.test = summary_from(object.at("test"));
  if (object.contains("validation")) data.validation = summary_from(object.at("validation"));
  if (object.contains("sampler")) data.sampler_samples = object.at("sampler").get<std::int64_t>();
  return data;
}

std::string text_of(const std::optional<DataSummary>& data) {
  if (!data) return "none";
  std::string text = fmt::format("{} samples", data->samples);
  if (data->is_interleaved) text = *data->is_interleaved ? "an interleaved stream" : "a stream";
  if (data->classes > 0) text += fmt::format(", {} classes", data->classes);
  if (!data->id.empty()) text += fmt::format(", the id {}", data->id);
  return text;
}

Result<void> compare_set(std::string_view name, std::size_t rank, const std::optional<DataSummary>& first,
                         const std::optional<DataSummary>& other) {
  if (first == other) return {};
  return fail(
      ErrorKind::io,
      fmt::format("the {} set of rank {} is not that of rank 0: rank 0 has {}; rank {} has {}. Every rank must "
                  "read the same files: compare the data's folder on the nodes of these two ranks, and see that "
                  "open_datasets() opens the same samples on every rank",
                  name, rank, text_of(first), rank, text_of(other)));
}

std::vector<std::int64_t> order_sizes_of(std::span<const RankData> ranks) {
  std::vector<std::int64_t> sizes;
  for (const RankData& rank : ranks) sizes.push_back(rank.sampler_samples.value_or(rank.train.samples));
  return sizes;
}

/// With another number of samples a rank would make another number of steps than its peers, which would wait for it.
Result<void> compare_samplers(std::span<const RankData> ranks) {
  constexpr std::size_t shown_max = 8;
  const auto text = [](const std::optional<std::int64_t>& samples) {
    return samples ? fmt::format("{} samples an epoch", *samples) : "no sampler";
  };
  std::vector<std::string> differing;
  std::size_t count = 0;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].sampler_samples == ranks[0].sampler_samples) continue;
    if (++count <= shown_max)
      differing.push_back(fmt::format("rank {} has {}", rank, text(ranks[rank].sampler_samples)));
  }
  if (count == 0) return {};
  if (count > shown_max) differing.push_back(fmt::format("{} more ranks differ", count - shown_max));
  return fail(ErrorKind::invalid,
              fmt::format("the samplers of open_datasets() differ: rank 0 has {}; {}. Sampler::size() must be equal on "
                          "all ranks, unless training.strategy.join is true",
                          text(ranks[0].sampler_samples), fmt::join(differing, "; ")));
}

}  // namespace

Result<std::vector<std::int64_t>> compare_data(std::span<const RankData> ranks, bool joins) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    TRY(compare_set("training", rank, ranks[0].train, ranks[rank].train));
    TRY(compare_set("validation", rank, ranks[0].validation, ranks[rank].validation));
    TRY(compare_set("test", rank, ranks[0].test, ranks[rank].test));
  }
  if (ranks[0].train.is_interleaved) return std::vector<std::int64_t>{};
  if (joins) return order_sizes_of(ranks);
  TRY(compare_samplers(ranks));
  return std::vector<std::int64_t>{};
}

Result<std::vector<std::int64_t>> agree_on_data(const Datasets& datasets, bool joins,
                                                checkpoint::Communicator& communicator) {
  nlohmann::json own = nlohmann::json::object();
  if (datasets.train != nullptr) own["train"] = object_of(summary_of(*datasets.train));
  if (datasets.iterable_train != nullptr) own["train"] = object_of(summary_of(*datasets.iterable_train));
  if (datasets.test != nullptr) own["test"] = object_of(summary_of(*datasets.test));
  if (datasets.validation != nullptr) own["validation"] = object_of(summary_of(*datasets.validation));
  if (datasets.sampler != nullptr) own["sampler"] = datasets.sampler->size();
  const auto gathered = TRY(checkpoint::gather_all(communicator, own));
  std::vector<RankData> ranks;
  for (const nlohmann::json& object : gathered) ranks.push_back(rank_data_from(object));
  return compare_data(ranks, joins);
}

}  // namespace trainyard::train
