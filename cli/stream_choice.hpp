#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::cli {

/// The value of torchrun's -r and -t: a choice of streams for each rank. Bits: 1 standard output, 2 standard error.
class StreamChoice {
 public:
  /// "0" to "3" for all ranks, or "0:1,2:3" by rank. ErrorKind::invalid for anything else.
  [[nodiscard]] static Result<StreamChoice> parse(std::string_view text);

  [[nodiscard]] bool has_output(std::int64_t rank) const { return (of(rank) & 1) != 0; }
  [[nodiscard]] bool has_error(std::int64_t rank) const { return (of(rank) & 2) != 0; }

 private:
  int of(std::int64_t rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() ? all_ : found->second;
  }

  int all_ = 0;
  std::map<std::int64_t, int> by_rank_;
};

}  // namespace trainyard::cli
