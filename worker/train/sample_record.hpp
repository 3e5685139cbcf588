#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "common/result.hpp"

namespace trainyard::train {

/// Records the samples of each step in a file that all ranks and attempts share, one JSON object per line: {"attempt":
/// 1, "step": 7, "rank": 0, "ids": [3, 9]}. It can prove that a resumed run neither lost nor repeated a sample.
class SampleRecord {
 public:
  SampleRecord(const SampleRecord&) = delete;
  SampleRecord(SampleRecord&& other) noexcept;
  ~SampleRecord();

  /// ErrorKind::io when the file cannot be opened for appending.
  [[nodiscard]] static Result<SampleRecord> open(const std::string& file, std::int64_t attempt, std::int64_t rank);

  /// `step`: the number of the finished step, from 1.
  [[nodiscard]] Result<void> write(std::int64_t step, const torch::Tensor& ids);

 private:
  SampleRecord(int descriptor, std::string file, std::int64_t attempt, std::int64_t rank);

  int descriptor_;
  std::string file_;
  std::int64_t attempt_;
  std::int64_t rank_;
};

}  // namespace trainyard::train
