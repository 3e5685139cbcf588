#include "storage/transfer_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::storage {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t part_bytes_min = 16 * mebibyte;
// Small, since a part is sent again when its connection breaks.
constexpr std::uint64_t part_bytes_usual_max = 64 * mebibyte;
// Eight parts for each of 16 connections, so that the time at the end, when some connections are idle, is short.
constexpr std::uint64_t part_count_wanted = 128;
constexpr std::size_t connection_count_min = 4;
constexpr std::uint64_t bytes_per_connection = 64 * mebibyte;

std::uint64_t quotient_rounded_up(std::uint64_t dividend, std::uint64_t divisor) {
  return dividend / divisor + (dividend % divisor == 0 ? 0 : 1);
}

struct Range {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

Result<std::optional<std::uint64_t>> read_number(const Environment& environment, const char* name, Range range,
                                                 std::string_view what) {
  const std::string text = first_of(environment, {name});
  if (text.empty()) return std::nullopt;
  const auto number = parse_number<std::uint64_t>(text);
  if (number && *number >= range.min && *number <= range.max) return number;
  return fail(ErrorKind::invalid,
              fmt::format("{} is '{}': write {} from {} to {}", name, text, what, range.min, range.max));
}

}  // namespace

TransferPlan make_transfer_plan(std::uint64_t bytes, const TransferChoice& choice, const TransferLimits& limits) {
  const std::uint64_t usual_part_bytes =
      std::clamp(quotient_rounded_up(bytes, part_count_wanted), part_bytes_min, part_bytes_usual_max);
  const std::uint64_t part_bytes =
      std::max(choice.part_bytes.value_or(usual_part_bytes), quotient_rounded_up(bytes, limits.part_count_max));
  const std::size_t usual_connection_count = std::clamp<std::uint64_t>(
      bytes / bytes_per_connection, connection_count_min, std::max(limits.connection_count_max, connection_count_min));
  return {.part_bytes = std::min(part_bytes, limits.part_bytes_max),
          .connection_count = choice.connection_count.value_or(usual_connection_count)};
}

TransferPlan make_read_plan(std::uint64_t bytes, const TransferChoice& choice) {
  return make_transfer_plan(bytes, choice, {.connection_count_max = connection_count_min});
}

Result<TransferChoice> read_transfer_choice(const Environment& environment) {
  const auto part_mib =
      TRY(read_number(environment, "TRAINYARD_STORAGE_PART_MIB", {.min = 5, .max = 5'120}, "the MiB of a part"));
  const auto connections =
      TRY(read_number(environment, "TRAINYARD_STORAGE_CONNECTIONS", {.min = 1, .max = 32}, "a number of connections"));
  TransferChoice choice;
  if (part_mib) choice.part_bytes = *part_mib * mebibyte;
  if (connections) choice.connection_count = *connections;
  return choice;
}

}  // namespace trainyard::storage
