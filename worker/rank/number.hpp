#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "common/result.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::rank {

struct NumberRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// The variable `name` as a whole number, or nothing where the variable is not set. ErrorKind::invalid names the
/// variable when its value is not a whole number in `range`.
[[nodiscard]] Result<std::optional<std::int64_t>> optional_number(const Environment& environment, std::string_view name,
                                                                  NumberRange range);
[[nodiscard]] Result<std::int64_t> number_or(const Environment& environment, std::string_view name, NumberRange range,
                                             std::int64_t otherwise);

}  // namespace trainyard::rank
