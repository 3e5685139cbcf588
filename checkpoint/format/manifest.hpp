#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/layout.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// Consecutive rows of an entry in a data file.
struct Chunk {
  std::string entry;
  std::uint64_t row_begin = 0;  ///< Along the entry's first dimension.
  std::uint64_t row_end = 0;
  std::uint64_t offset = 0;  ///< In the file.
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  bool operator==(const Chunk&) const = default;
};

/// The part of a manifest about one rank's data file.
struct Receipt {
  std::int64_t rank = 0;
  std::uint64_t bytes = 0;   ///< The file's size.
  std::uint32_t crc32c = 0;  ///< The file's checksum.
  std::vector<Chunk> chunks;
  bool operator==(const Receipt&) const = default;
};

/// All that a reader needs to know of a complete checkpoint.
struct Manifest {
  CheckpointId id;
  Identity identity;
  Time time;
  bool is_final = false;  ///< The training had reached its end: nothing is left to train.
  std::string nonce;      ///< Tells two manifests of one key apart.
  /// The nonce of the save that wrote the data files, a part of their names. Empty before format version 3.
  std::string data_nonce;
  nlohmann::json values = nlohmann::json::object();
  std::vector<EntryInfo> entries;
  std::vector<Receipt> receipts;  ///< One for each rank, in rank order.
  bool operator==(const Manifest&) const = default;
};

/// The placement's name in manifests: "replicated", "rank0", "per_rank" or "sharded".
[[nodiscard]] std::string_view to_string(Placement placement);

[[nodiscard]] nlohmann::json to_json(const Receipt& receipt);
/// ErrorKind::corrupt for an object that to_json() did not write.
[[nodiscard]] Result<Receipt> parse_receipt(const nlohmann::json& object);

[[nodiscard]] std::string to_text(const Manifest& manifest);
/// ErrorKind::corrupt for a text that to_text() did not write, invalid for a newer format than this program's.
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text);

/// The key of `rank`'s data file.
[[nodiscard]] std::string data_key(const Manifest& manifest, std::int64_t rank);

/// The sizes of all data files together.
[[nodiscard]] std::uint64_t data_bytes(const Manifest& manifest);

}  // namespace trainyard::checkpoint
