#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/interchange/stored_tensor.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Receives the next bytes of something that is read in pieces.
using TakeBytes = std::function<Result<void>(std::span<const std::byte> bytes)>;

/// Reads one checkpoint's data files through a window of bounded size: neighbouring chunks cost one request, and the
/// largest tensor takes no more memory than the smallest. One thread uses it.
class DataStream {
 public:
  /// `store` and `manifest` outlive it.
  DataStream(storage::Store& store, const Manifest& manifest, std::uint64_t window_bytes = std::uint64_t{32} << 20)
      : store_{store}, manifest_{manifest}, window_bytes_max_{window_bytes} {}

  /// Gives all bytes of `tensor` to `take`, in order. A chunk's checksum is verified at the chunk's end, so the bytes
  /// must not be used before read() has succeeded. ErrorKind::corrupt names the tensor and the file.
  [[nodiscard]] Result<void> read(const StoredTensor& tensor, const TakeBytes& take);

 private:
  [[nodiscard]] Result<void> read_part(const StoredTensor& tensor, const Part& part, const TakeBytes& take);
  [[nodiscard]] Result<std::span<const std::byte>> window_at(const Receipt& receipt, std::uint64_t offset);

  storage::Store& store_;
  const Manifest& manifest_;
  const std::uint64_t window_bytes_max_;
  std::vector<std::byte> window_;
  std::int64_t window_rank_ = -1;
  std::uint64_t window_begin_ = 0;
};

}  // namespace trainyard::checkpoint
