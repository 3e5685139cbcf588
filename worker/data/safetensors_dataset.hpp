#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "worker/data/read_file.hpp"

namespace trainyard::data {

struct SafetensorsOptions {
  std::string inputs = "inputs";    ///< The name of the tensor that is Batch::inputs.
  std::string targets = "targets";  ///< The name of the tensor that is Batch::targets. Empty: there are none.
};

/// The options inputs and targets. Throws InvalidJob.
[[nodiscard]] SafetensorsOptions read_safetensors_options(const Options& options);

/// A .safetensors file whose tensors all have the samples as their first dimension. Row i of each tensor is sample i.
/// A tensor that is neither inputs nor targets is in Batch::named. Types stay as they are, except that targets of whole
/// numbers become int64. The file is read row by row.
class SafetensorsDataset final : public Dataset {
 public:
  /// not_found: there is no such file. invalid: it is no regular file, lacks a tensor that `options` name, its tensors
  /// have different numbers of rows, or have none, or a type that torch does not have. corrupt: its header contradicts
  /// itself or the file's size. io.
  [[nodiscard]] static Result<std::unique_ptr<SafetensorsDataset>> open(const std::filesystem::path& file,
                                                                        const SafetensorsOptions& options);

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  /// Throws std::runtime_error for a file that cannot be read.
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override;
  /// A checksum of the header, and of the first and the last bytes of each tensor.
  [[nodiscard]] std::string id() const override { return id_; }

 private:
  struct Column {
    std::string name;
    torch::ScalarType dtype = torch::kFloat;
    std::vector<std::int64_t> row_shape;
    std::int64_t row_bytes = 0;
    std::int64_t offset = 0;  // of the first row in the file
  };

  SafetensorsDataset(RandomAccessFile file, SafetensorsOptions options)
      : file_{std::move(file)}, options_{std::move(options)} {}
  [[nodiscard]] Result<void> read_header();
  [[nodiscard]] torch::Tensor gather(const Column& column, const torch::Tensor& ids) const;

  RandomAccessFile file_;
  SafetensorsOptions options_;
  std::vector<Column> columns_;
  std::int64_t samples_ = 0;
  std::string id_;
};

}  // namespace trainyard::data
