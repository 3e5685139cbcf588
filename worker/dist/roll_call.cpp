#include "worker/dist/roll_call.hpp"

#include <fmt/format.h>

#include <thread>

#include "common/logging.hpp"
#include "common/wait_log_intervals.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/rank/waiting_text.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto look_interval_min = 5ms;
constexpr auto look_interval_max = 200ms;
constexpr std::size_t missing_max = 9;  // Each one costs a request to the store, and a message does not name more.

std::string key_of(std::int64_t rank) {
  return fmt::format("arrived/{}", rank);
}

std::vector<std::int64_t> missing_ranks(c10d::Store& store, std::int64_t world_size) {
  std::vector<std::int64_t> missing;
  for (std::int64_t rank = 0; rank < world_size && missing.size() < missing_max; ++rank) {
    if (!store.check({key_of(rank)})) missing.push_back(rank);
  }
  return missing;
}

Result<void> wait_for_all(c10d::Store& store, const RollCall& call, rank::RankLink& link) {
  std::vector<std::string> keys;
  for (std::int64_t rank = 0; rank < call.world_size; ++rank) keys.push_back(key_of(rank));
  const Instant start = std::chrono::steady_clock::now();
  Instant next_wait_log = start + first_wait_log_after;
  milliseconds pause = look_interval_min;
  while (!store.check(keys)) {
    const Instant now = std::chrono::steady_clock::now();
    const auto waited = std::chrono::duration_cast<milliseconds>(now - start);
    if (const auto failure = link.group_failure()) return fail(ErrorKind::cancelled, failure->message);
    if (link.is_stop_requested()) return fail(ErrorKind::cancelled, "asked to stop while the group was forming");
    if (now >= next_wait_log || waited >= call.deadline) {
      const auto missing = missing_ranks(store, call.world_size);
      if (missing.empty()) break;
      const std::string text = rank::missing_ranks_text(missing, call.world_size, waited);
      if (waited >= call.deadline) return fail(ErrorKind::timeout, "the group did not come together: " + text);
      if (call.logs) logging::info("waiting for the group", {{"rank", call.rank}, {"waitingFor", text}});
      rank::RankProgress progress;
      progress.phase = "Rendezvous";
      progress.waiting_for = text;
      link.report(progress);
      next_wait_log = now + wait_log_interval;
    }
    // Polls, because a wait in the store would not end when the group breaks.
    std::this_thread::sleep_for(pause);
    pause = std::min<milliseconds>(pause * 2, look_interval_max);
  }
  return {};
}

}  // namespace

Result<void> answer_roll_call(c10d::Store& store, const RollCall& call, rank::RankLink& link) {
  try {
    store.set(key_of(call.rank), std::vector<std::uint8_t>{1});
    return wait_for_all(store, call, link);
  } catch (const std::exception& error) {
    return fail(ErrorKind::unavailable, "asking the rendezvous store who has come: " + message_of(error));
  }
}

}  // namespace trainyard::dist
