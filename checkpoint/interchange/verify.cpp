#include "checkpoint/interchange/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/interchange/stored_tensor.hpp"
#include "checkpoint/run/search.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"

namespace trainyard::checkpoint {
namespace {

// The checksum of the part of a chunk that has been read.
struct Progress {
  const Chunk* chunk = nullptr;
  std::uint32_t crc = 0;
};

// Adds to the checksum the part of `bytes`, which begin at `offset`, that belongs to the chunk.
void feed(Progress& progress, std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t begin = std::max(offset, progress.chunk->offset);
  const std::uint64_t end = std::min(offset + bytes.size(), progress.chunk->offset + progress.chunk->bytes);
  if (begin < end) progress.crc = storage::crc32c(bytes.subspan(begin - offset, end - begin), progress.crc);
}

std::string damage_of(const Chunk& chunk) {
  return fmt::format("{} (rows {} to {}) is damaged: its checksum does not match", chunk.entry, chunk.row_begin,
                     chunk.row_end);
}

Result<std::vector<std::string>> read_file(storage::Store& store, const std::string& key, const Receipt& receipt,
                                           std::uint64_t piece_bytes) {
  std::vector<Progress> chunks;
  for (const Chunk& chunk : receipt.chunks) {
    // stray_chunks() reports chunks that exceed the file.
    const bool is_inside = chunk.bytes <= receipt.bytes && chunk.offset <= receipt.bytes - chunk.bytes;
    if (is_inside) chunks.push_back({.chunk = &chunk});
  }
  std::sort(chunks.begin(), chunks.end(),
            [](const Progress& a, const Progress& b) { return a.chunk->offset < b.chunk->offset; });
  std::uint32_t crc = 0;
  std::size_t first_open = 0;  // All chunks before it have been read.
  std::vector<std::byte> piece;
  for (std::uint64_t offset = 0; offset < receipt.bytes; offset += piece.size()) {
    piece.resize(std::min(piece_bytes, receipt.bytes - offset));
    TRY(store.get_range(key, offset, piece));
    crc = storage::crc32c(piece, crc);
    for (std::size_t i = first_open; i < chunks.size() && chunks[i].chunk->offset < offset + piece.size(); ++i)
      feed(chunks[i], offset, piece);
    while (first_open < chunks.size() &&
           chunks[first_open].chunk->offset + chunks[first_open].chunk->bytes <= offset + piece.size())
      ++first_open;
  }
  std::vector<std::string> damages;
  for (const Progress& progress : chunks) {
    if (progress.crc != progress.chunk->crc32c)
      damages.push_back(fmt::format("{}: {}", key, damage_of(*progress.chunk)));
  }
  if (crc != receipt.crc32c && damages.empty())
    damages.push_back(fmt::format("{}: the file's checksum does not match, and those of the entries in it do", key));
  return damages;
}

// Damage of the whole file; empty: the file exists in its size.
std::string damage_of_size(const Inventory& inventory, const std::string& key, const Receipt& receipt) {
  const auto found = inventory.sizes.find(key);
  std::string what;
  if (found == inventory.sizes.end())
    what = "is missing";
  else if (found->second != receipt.bytes)
    what = fmt::format("has {} bytes instead of {}", found->second, receipt.bytes);
  if (what.empty()) return what;
  std::string entries;
  for (const Chunk& chunk : receipt.chunks) entries += (entries.empty() ? "" : ", ") + chunk.entry;
  return fmt::format("{}: the file of rank {} {}; in it: {}", key, receipt.rank, what,
                     entries.empty() ? "no entry" : entries);
}

Result<void> verify_file(storage::Store& store, const Inventory& inventory, const Manifest& manifest,
                         const Receipt& receipt, std::uint64_t piece_bytes, Verification& verification) {
  const std::string key = data_key(manifest, receipt.rank);
  if (std::string damage = damage_of_size(inventory, key, receipt); !damage.empty()) {
    verification.damages.push_back(std::move(damage));
    return {};
  }
  auto damages = read_file(store, key, receipt, piece_bytes);
  // The file was removed or cut after it was listed.
  if (!damages && is_damage(damages.error().kind))
    damages = std::vector{fmt::format("{}: {}", key, damages.error().message)};
  TRY(damages);
  verification.bytes += receipt.bytes;
  verification.damages.insert(verification.damages.end(), damages->begin(), damages->end());
  return {};
}

}  // namespace

Result<Verification> verify(storage::Store& store, const Inventory& inventory, const CheckpointId& id,
                            std::uint64_t piece_bytes) {
  Verification verification;
  const std::string key = manifest_key(id);
  const auto manifest = storage::get_text(store, key).and_then(parse_manifest);
  if (!manifest && !is_damage(manifest.error().kind)) return tl::unexpected(manifest.error());
  if (!manifest || manifest->id != id) {
    const std::string why = !manifest                      ? manifest.error().message
                            : manifest->id.step == id.step ? "it is of another generation"
                                                           : "it is of another step";
    const bool is_missing = !manifest && manifest.error().kind == ErrorKind::not_found;
    verification.damages.push_back(is_missing ? fmt::format("{} is missing: the checkpoint was never finished", key)
                                              : fmt::format("{}: {}", key, why));
    return verification;
  }
  for (const StoredTensor& tensor : stored_tensors(*manifest)) {
    if (!tensor.fault.empty())
      verification.damages.push_back(fmt::format("{}: {}: {}", key, tensor.name(), tensor.fault));
  }
  const auto strays = stray_chunks(*manifest);
  verification.damages.insert(verification.damages.end(), strays.begin(), strays.end());
  for (const Receipt& receipt : manifest->receipts) {
    TRY(verify_file(store, inventory, *manifest, receipt, piece_bytes, verification));
  }
  return verification;
}

}  // namespace trainyard::checkpoint
