#include "worker/rank/collective_name.hpp"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <system_error>

#include "common/text.hpp"

namespace trainyard::rank {
namespace {

constexpr std::size_t set_bytes_max = 40;
constexpr std::string_view name_begin_of_ranks = " (";
constexpr std::string_view name_end_of_ranks = " ranks)";

}  // namespace

std::string name_of_set(std::string_view set, std::int64_t ranks) {
  const bool is_long = set.size() > set_bytes_max;
  const std::string hash = is_long ? fmt::format(" {:08x}", std::hash<std::string_view>{}(set)&0xffffffffU) : "";
  return fmt::format("the process set \"{}\"{}{}{}{}", keep_beginning(set, set_bytes_max), hash, name_begin_of_ranks,
                     ranks, name_end_of_ranks);
}

std::string name_of_set_collective(std::string_view call, std::string_view set, std::int64_t ranks) {
  return fmt::format("{} of {}", call, name_of_set(set, ranks));
}

std::optional<std::int64_t> ranks_of_set_collective(std::string_view name) {
  if (!name.ends_with(name_end_of_ranks)) return std::nullopt;
  name.remove_suffix(name_end_of_ranks.size());
  const std::size_t begin = name.rfind(name_begin_of_ranks);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(begin + name_begin_of_ranks.size());
  std::int64_t ranks = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), ranks);
  const bool is_number = parsed.ec == std::errc{} && parsed.ptr == digits.data() + digits.size();
  return is_number ? std::optional{ranks} : std::nullopt;
}

}  // namespace trainyard::rank
