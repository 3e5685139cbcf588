#include "worker/data/safetensors_dataset.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "checkpoint/interchange/safetensors_file.hpp"
#include "common/try.hpp"
#include "common/word_hash.hpp"

namespace trainyard::data {
namespace {

constexpr std::int64_t hashed_bytes = 4096;

std::optional<torch::ScalarType> type_of(std::string_view safetensors_name) {
  struct Known {
    std::string_view name;
    torch::ScalarType type;
  };
  static constexpr std::array known{Known{"F64", torch::kDouble}, Known{"F32", torch::kFloat},
                                    Known{"F16", torch::kHalf},   Known{"BF16", torch::kBFloat16},
                                    Known{"I64", torch::kLong},   Known{"I32", torch::kInt},
                                    Known{"I16", torch::kShort},  Known{"I8", torch::kChar},
                                    Known{"U8", torch::kByte},    Known{"BOOL", torch::kBool}};
  const auto* found = std::ranges::find(known, safetensors_name, &Known::name);
  return found == known.end() ? std::nullopt : std::optional{found->type};
}

}  // namespace

SafetensorsOptions read_safetensors_options(const Options& options) {
  SafetensorsOptions read;
  read.inputs = options.text("inputs", read.inputs);
  read.targets = options.text("targets", read.targets);
  if (read.inputs.empty() || read.inputs == read.targets)
    throw InvalidJob{"training.data.options: inputs and targets must name two tensors of the file"};
  return read;
}

Result<std::unique_ptr<SafetensorsDataset>> SafetensorsDataset::open(const std::filesystem::path& file,
                                                                     const SafetensorsOptions& options) {
  auto opened = TRY(RandomAccessFile::open(
      file,
      "set training.data.path to the folder with train.safetensors and val.safetensors, or training.data.options: "
      "{validation: false} to train without the second"));
  std::unique_ptr<SafetensorsDataset> dataset{new SafetensorsDataset{std::move(opened), options}};
  if (const auto done = dataset->read_header(); !done) return fail(file.string(), done.error());
  return dataset;
}

Result<void> SafetensorsDataset::read_header() {
  const std::int64_t file_bytes = file_.bytes();
  std::string start(checkpoint::safetensors_length_bytes, '\0');
  if (file_bytes < static_cast<std::int64_t>(start.size()))
    return fail(ErrorKind::corrupt, fmt::format("has {} bytes, which are no safetensors file", file_bytes));
  TRY(file_.read(0, std::as_writable_bytes(std::span{start})));
  const std::uint64_t length = TRY(checkpoint::read_safetensors_length(start));
  if (length > static_cast<std::uint64_t>(file_bytes) - start.size())
    return fail(ErrorKind::corrupt,
                fmt::format("has {} bytes, and a header of {}: it was cut off", file_bytes, length));
  std::string header(length, '\0');
  TRY(file_.read(static_cast<std::int64_t>(start.size()), std::as_writable_bytes(std::span{header})));
  const auto entries = TRY(checkpoint::parse_safetensors_header(header));

  if (entries.empty()) return fail(ErrorKind::invalid, "has no tensors");

  std::vector<std::string_view> names;
  for (const checkpoint::SafetensorsEntry& entry : entries) {
    names.push_back(entry.name);
    const auto type = type_of(entry.dtype.safetensors);
    if (!type)
      return fail(ErrorKind::invalid, fmt::format("the tensor {} has the type {}, in which there is no data",
                                                  entry.name, entry.dtype.name));
    if (entry.shape.empty() || entry.shape.front() == 0)
      return fail(ErrorKind::invalid,
                  fmt::format("the tensor {} has no samples: its first dimension has to be them", entry.name));
    if (entry.offset + entry.bytes > static_cast<std::uint64_t>(file_bytes))
      return fail(ErrorKind::corrupt, fmt::format("ends within the tensor {}: it was cut off", entry.name));
    const std::int64_t rows = entry.shape.front();
    if (samples_ != 0 && rows != samples_)
      return fail(ErrorKind::invalid,
                  fmt::format("the tensor {} has {} rows, and {} has {}: each tensor has one for each sample",
                              entry.name, rows, entries.front().name, samples_));
    samples_ = rows;
    columns_.push_back({.name = entry.name,
                        .dtype = *type,
                        .row_shape = {entry.shape.begin() + 1, entry.shape.end()},
                        .row_bytes = static_cast<std::int64_t>(entry.bytes) / rows,
                        .offset = static_cast<std::int64_t>(entry.offset)});
  }
  for (const auto& [option, name] : {std::pair{"inputs", options_.inputs}, std::pair{"targets", options_.targets}}) {
    if (name.empty() || std::ranges::find(names, name) != names.end()) continue;
    return fail(ErrorKind::invalid,
                fmt::format("has no tensor {}, but {}: name the one for the {} in training.data.options.{}", name,
                            fmt::join(names, ", "), option, option));
  }

  std::uint64_t hash = word_hash(word_hash_start, std::as_bytes(std::span{header}));
  for (const Column& column : columns_) {
    const std::int64_t bytes = column.row_bytes * samples_;
    std::string part(static_cast<std::size_t>(std::min(hashed_bytes, bytes)), '\0');
    for (const std::int64_t begin : {std::int64_t{0}, bytes - static_cast<std::int64_t>(part.size())}) {
      TRY(file_.read(column.offset + begin, std::as_writable_bytes(std::span{part})));
      hash = word_hash(hash, std::as_bytes(std::span{part}));
    }
  }
  id_ = fmt::format("{:016x}", hash);
  return {};
}

Batch SafetensorsDataset::gather(const torch::Tensor& ids) const {
  Batch batch{.inputs = {}, .targets = {}, .ids = ids};
  for (const Column& column : columns_) {
    torch::Tensor rows = gather(column, ids);
    if (column.name == options_.inputs) {
      batch.inputs = std::move(rows);
    } else if (column.name == options_.targets) {
      const bool is_whole = torch::isIntegralType(column.dtype, /*includeBool=*/false);
      batch.targets = is_whole ? rows.to(torch::kLong) : std::move(rows);
    } else {
      batch.named.set(column.name, std::move(rows));
    }
  }
  return batch;
}

torch::Tensor SafetensorsDataset::gather(const Column& column, const torch::Tensor& ids) const {
  std::vector<std::int64_t> shape = column.row_shape;
  shape.insert(shape.begin(), ids.size(0));
  torch::Tensor rows = torch::empty(shape, column.dtype);
  for (std::int64_t place = 0; place < ids.size(0); ++place) {
    const std::int64_t row = ids[place].item<std::int64_t>();
    const std::span into{static_cast<std::byte*>(rows.mutable_data_ptr()) + place * column.row_bytes,
                         static_cast<std::size_t>(column.row_bytes)};
    if (const auto done = file_.read(column.offset + row * column.row_bytes, into); !done)
      throw std::runtime_error{fmt::format("sample {}: {}", row, done.error().message)};
  }
  return rows;
}

}  // namespace trainyard::data
