#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/result.hpp"
#include "storage/environment.hpp"

namespace trainyard::storage {

/// What a user fixes about large transfers; what is absent follows from the number of bytes.
struct TransferChoice {
  std::optional<std::uint64_t> part_bytes;
  std::optional<std::size_t> connection_count;
  bool operator==(const TransferChoice&) const = default;
};

/// What bounds one kind of transfer. The defaults are an upload to S3 or to Google, which take the same.
struct TransferLimits {
  std::uint64_t part_bytes_max = std::uint64_t{5} << 30;
  std::uint64_t part_count_max = 10'000;
  /// Not of a user's choice, which may be higher.
  std::size_t connection_count_max = 16;
};

/// How the bytes of one call are cut up.
struct TransferPlan {
  std::uint64_t part_bytes = 0;  ///< Length of each part but the last, which may be shorter.
  std::size_t connection_count = 1;
  bool operator==(const TransferPlan&) const = default;
};

/// Without a choice: parts of 16 MiB, from 2 GiB on of a 128th of `bytes`, at most 64 MiB; and four connections, one
/// for each 64 MiB from 256 MiB on. Parts are larger than that, and than the choice, where there would be too many of
/// them. A connection takes about 1 MiB of memory, so that 32 of them, the most that may be chosen, stay below 64 MiB.
/// Pure.
[[nodiscard]] TransferPlan make_transfer_plan(std::uint64_t bytes, const TransferChoice& choice,
                                              const TransferLimits& limits = {});

/// The plan for reading `bytes`. Several reads run at a time, so that each gets four connections without a choice.
[[nodiscard]] TransferPlan make_read_plan(std::uint64_t bytes, const TransferChoice& choice);

/// TRAINYARD_STORAGE_PART_MIB (5 to 5120) and TRAINYARD_STORAGE_CONNECTIONS (1 to 32). ErrorKind::invalid for a
/// variable that is no such number.
[[nodiscard]] Result<TransferChoice> read_transfer_choice(const Environment& environment);

}  // namespace trainyard::storage
