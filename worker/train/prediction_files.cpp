#include "worker/train/prediction_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "checkpoint/format/safetensors.hpp"
#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/checkpoint/host_state.hpp"

namespace trainyard::train {
namespace {

constexpr std::string_view ids_name = "ids";

void check_rows(const std::string& name, const torch::Tensor& tensor, std::int64_t samples) {
  if (name == ids_name || name == "__metadata__" || name.empty())
    throw InvalidJob{fmt::format("predict_step returned a tensor named '{}': give it another name", name)};
  if (!tensor.defined() || tensor.dim() == 0 || tensor.size(0) != samples) {
    throw InvalidJob{
        fmt::format("predict_step returned '{}' of the shape [{}] for {} samples: its first dimension has "
                    "to be the batch",
                    name, tensor.defined() ? fmt::format("{}", fmt::join(tensor.sizes(), ", ")) : "", samples)};
  }
}

/// Throws for a tensor that safetensors files cannot hold.
void check_kind(const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.is_complex() && !tensor.is_quantized() && tensor.layout() == torch::kStrided) return;
  throw InvalidJob{fmt::format(
      "predict_step returned '{}' as a {} tensor, which safetensors files do not hold: return it dense, with "
      "real numbers",
      name, tensor.is_complex() ? "complex" : (tensor.is_quantized() ? "quantized" : "sparse"))};
}

/// The values on the host, in memory that nothing else uses: a module may fill the same tensor for each batch.
torch::Tensor own_copy(const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach();
  return values.is_cpu() ? values.clone(at::MemoryFormat::Contiguous) : values.cpu().contiguous();
}

/// True when rows of the two tensors can be one file's.
bool fit(const torch::Tensor& first, const torch::Tensor& other) {
  return first.scalar_type() == other.scalar_type() && first.sizes().slice(1) == other.sizes().slice(1);
}

}  // namespace

Result<void> PredictionFiles::add(const Batch& batch, const std::map<std::string, torch::Tensor>& values) {
  if (values.empty()) throw InvalidJob{"predict_step returned no tensor, so that there is nothing to store"};
  for (const auto& [name, tensor] : values) {
    check_rows(name, tensor, batch.size());
    check_kind(name, tensor);
  }
  std::map<std::string, torch::Tensor> rows = values;
  rows.emplace(ids_name, batch.ids);
  for (auto& [name, tensor] : rows) tensor = own_copy(tensor);
  if (first_.empty()) {
    for (const auto& [name, tensor] : rows) first_.emplace(name, tensor.slice(0, 0, 0));
  }
  for (const auto& [name, tensor] : rows) {
    const auto first = first_.find(name);
    if (first == first_.end() || first_.size() != rows.size() || !fit(first->second, tensor)) {
      throw InvalidJob{
          fmt::format("predict_step returned '{}' with another name, type or shape of a sample than for "
                      "the first batch",
                      name)};
    }
    rows_[name].push_back(tensor);
    bytes_ += tensor.nbytes();
  }
  return bytes_ >= options_.file_bytes_max ? finish() : Result<void>{};
}

Result<void> PredictionFiles::finish() {
  if (rows_.empty()) return {};
  std::vector<checkpoint::SafetensorsTensor> tensors;
  std::vector<torch::Tensor> contents;
  for (const auto& [name, parts] : rows_) {
    const torch::Tensor all = torch::cat(parts);
    const auto described = TRY(checkpoint::describe({.name = name, .tensor = all}));
    tensors.push_back(
        {.name = name, .dtype = described.info.dtype, .shape = described.info.shape, .bytes = described.info.bytes});
    contents.push_back(all);
  }
  const std::string header = checkpoint::safetensors_header(tensors, {{"format", "pt"}});
  std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span{header})};
  for (const torch::Tensor& content : contents)
    pieces.emplace_back(static_cast<const std::byte*>(content.const_data_ptr()), content.nbytes());
  PredictionFile file{.key = fmt::format("{}rank-{}-of-{}-part-{}.safetensors", predictions_folder, options_.rank,
                                         options_.world_size, files_.size())};
  for (const torch::Tensor& ids : rows_.find(std::string{ids_name})->second) file.samples += ids.size(0);
  TRY(store_.put(file.key, pieces));
  files_.push_back(std::move(file));
  rows_.clear();
  bytes_ = 0;
  return {};
}

}  // namespace trainyard::train
