#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/result.hpp"
#include "storage/environment.hpp"

namespace trainyard::storage {

/// The user's settings for large transfers. A value that is not set follows from the number of bytes.
struct TransferChoice {
  std::optional<std::uint64_t> part_bytes;
  std::optional<std::size_t> connection_count;
  bool operator==(const TransferChoice&) const = default;
};

/// The limits of one kind of transfer. The defaults are those of an upload to S3 or to Google.
struct TransferLimits {
  std::uint64_t part_bytes_max = std::uint64_t{5} << 30;
  std::uint64_t part_count_max = 10'000;
  /// The user's choice may be higher.
  std::size_t connection_count_max = 16;
};

/// How the bytes of one call are divided.
struct TransferPlan {
  std::uint64_t part_bytes = 0;  ///< Length of each part; the last one may be shorter.
  std::size_t connection_count = 1;
  bool operator==(const TransferPlan&) const = default;
};

/// Without a choice, parts have 16 MiB, and from 2 GiB on a 128th of `bytes`, at most 64 MiB; there are four
/// connections, and from 256 MiB on one for each 64 MiB. Parts become larger, even than the choice, where their number
/// would exceed the limit. A connection takes about 1 MiB of memory. Pure.
[[nodiscard]] TransferPlan make_transfer_plan(std::uint64_t bytes, const TransferChoice& choice,
                                              const TransferLimits& limits = {});

/// The plan for reading `bytes`. Several reads run at a time, so each gets four connections unless the user chose.
[[nodiscard]] TransferPlan make_read_plan(std::uint64_t bytes, const TransferChoice& choice);

/// TRAINYARD_STORAGE_PART_MIB (5 to 5120) and TRAINYARD_STORAGE_CONNECTIONS (1 to 32). ErrorKind::invalid for a
/// variable that is no such number.
[[nodiscard]] Result<TransferChoice> read_transfer_choice(const Environment& environment);

}  // namespace trainyard::storage
