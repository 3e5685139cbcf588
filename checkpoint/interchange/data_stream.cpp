#include "checkpoint/interchange/data_stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/try.hpp"
#include "storage/crc32c.hpp"

namespace trainyard::checkpoint {
namespace {

const Receipt* find_receipt(const Manifest& manifest, std::int64_t rank) {
  const auto found = std::find_if(manifest.receipts.begin(), manifest.receipts.end(),
                                  [&](const Receipt& receipt) { return receipt.rank == rank; });
  return found == manifest.receipts.end() ? nullptr : &*found;
}

}  // namespace

Result<void> DataStream::read(const StoredTensor& tensor, const TakeBytes& take) {
  if (!tensor.fault.empty()) {
    return fail(ErrorKind::corrupt,
                fmt::format("{}: {}: {}", store_.uri_of(folder_key(manifest_.id)), tensor.name(), tensor.fault));
  }
  for (const Part& part : tensor.parts) {
    TRY(read_part(tensor, part, take));
  }
  return {};
}

Result<void> DataStream::read_part(const StoredTensor& tensor, const Part& part, const TakeBytes& take) {
  const Chunk& chunk = part.chunk;
  const std::string uri = store_.uri_of(data_key(manifest_, part.rank));
  const Receipt* receipt = find_receipt(manifest_, part.rank);
  if (receipt == nullptr || chunk.bytes > receipt->bytes || chunk.offset > receipt->bytes - chunk.bytes)
    return fail(ErrorKind::corrupt, fmt::format("{}: {} would lie beyond the file's end", uri, tensor.name()));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < chunk.bytes;) {
    const auto window = window_at(*receipt, chunk.offset + done);
    if (!window) return fail(fmt::format("reading {}", tensor.name()), window.error());
    const auto bytes = window->first(std::min<std::uint64_t>(window->size(), chunk.bytes - done));
    crc = storage::crc32c(bytes, crc);
    TRY(take(bytes));
    done += bytes.size();
  }
  if (crc != chunk.crc32c)
    return fail(ErrorKind::corrupt, fmt::format("{}: the checksum of {} does not match", uri, tensor.name()));
  return {};
}

// The window's bytes from `offset` on, at least one byte.
Result<std::span<const std::byte>> DataStream::window_at(const Receipt& receipt, std::uint64_t offset) {
  const bool is_inside =
      window_rank_ == receipt.rank && offset >= window_begin_ && offset < window_begin_ + window_.size();
  if (!is_inside) {
    window_rank_ = -1;
    window_.resize(std::min(window_bytes_max_, receipt.bytes - offset));
    TRY(store_.get_range(data_key(manifest_, receipt.rank), offset, window_));
    window_rank_ = receipt.rank;
    window_begin_ = offset;
  }
  return std::span<const std::byte>{window_}.subspan(offset - window_begin_);
}

}  // namespace trainyard::checkpoint
