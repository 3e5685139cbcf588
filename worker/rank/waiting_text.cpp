#include "worker/rank/waiting_text.hpp"

#include <fmt/format.h>

namespace trainyard::rank {
namespace {

constexpr std::size_t named_max = 8;  // A longer list would not help a reader.

}  // namespace

std::string missing_ranks_text(const std::vector<std::int64_t>& missing, std::int64_t world_size,
                               std::chrono::milliseconds waited) {
  if (missing.size() == 1) {
    return fmt::format("rank {} of {} has not come ({})", missing.front(), world_size, seconds_text(waited));
  }
  std::string names;
  const std::size_t named = std::min(missing.size(), named_max);
  for (std::size_t i = 0; i < named; ++i) {
    const bool is_last = i + 1 == missing.size();
    names += fmt::format("{}{}", i == 0 ? "" : (is_last ? " and " : ", "), missing[i]);
  }
  if (missing.size() > named) names += fmt::format(" and {} more", missing.size() - named);
  return fmt::format("ranks {} of {} have not come ({})", names, world_size, seconds_text(waited));
}

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

}  // namespace trainyard::rank
