#include "worker/dist/deadlines.hpp"

#include <algorithm>

#include "common/try.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/number.hpp"

namespace trainyard::dist {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr rank::NumberRange any_seconds{.min = 1, .max = 31'536'000};

}  // namespace

Result<Deadlines> read_deadlines(const rank::Environment& environment) {
  Deadlines deadlines;
  const auto rendezvous = TRY(rank::optional_number(environment, rank::env_rendezvous_seconds, any_seconds));
  if (rendezvous) deadlines.rendezvous = seconds{*rendezvous};
  const auto hang = TRY(rank::optional_number(environment, rank::env_hang_seconds, any_seconds));
  if (hang) deadlines.collective = std::max<milliseconds>(deadlines.collective, 3 * seconds{*hang});
  const auto collective = TRY(rank::optional_number(environment, rank::env_collective_seconds, any_seconds));
  if (collective) deadlines.collective = seconds{*collective};
  return deadlines;
}

std::optional<milliseconds> collective_deadline(const Deadlines& deadlines, std::int64_t world_size) {
  if (world_size == 1) return std::nullopt;
  return deadlines.collective;
}

}  // namespace trainyard::dist
