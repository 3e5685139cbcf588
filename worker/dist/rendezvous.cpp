#include "worker/dist/rendezvous.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <thread>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/rank/tcp.hpp"
#include "worker/rank/waiting_text.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto connect_deadline = 1s;
constexpr auto retry_interval_min = 10ms;
constexpr auto retry_interval_max = 500ms;

Result<void> try_connect(const std::string& host, std::uint16_t port) {
  const auto addresses = TRY(rank::resolve(host, port));
  Result<void> last = fail(ErrorKind::unavailable, "no address");
  for (const auto& address : addresses) {
    const auto socket = rank::start_connect(address);
    if (!socket) {
      last = tl::unexpected(socket.error());
      continue;
    }
    pollfd waited{.fd = socket->get(), .events = POLLOUT, .revents = 0};
    if (poll(&waited, 1, static_cast<int>(milliseconds{connect_deadline}.count())) == 0) {
      last = fail(ErrorKind::unavailable, "no answer");
      continue;
    }
    last = rank::take_connect_error(socket->get());
    if (last) return {};
  }
  return last;
}

/// Waits here, because TCPStore's constructor would wait without noticing that the group is broken.
Result<void> wait_for_host(const rank::GroupEnvironment& environment, std::uint16_t port, milliseconds deadline,
                           rank::RankLink& link) {
  const std::string& host = environment.master_address;
  const Instant start = std::chrono::steady_clock::now();
  Instant next_wait_log = start + rank::first_wait_log_after;
  milliseconds pause = retry_interval_min;
  while (true) {
    const auto connected = try_connect(host, port);
    if (connected) return {};
    link.beat();
    const Instant now = std::chrono::steady_clock::now();
    const auto waited = std::chrono::duration_cast<milliseconds>(now - start);
    const std::string text = fmt::format("rank 0's store at {}:{} ({}): {}", host, port, rank::seconds_text(waited),
                                         connected.error().message);
    if (const auto failure = link.group_failure()) return fail(ErrorKind::cancelled, failure->message);
    if (link.is_stop_requested()) return fail(ErrorKind::cancelled, "asked to stop while waiting for " + text);
    if (waited >= deadline) return fail(ErrorKind::timeout, "gave up waiting for " + text);
    if (now >= next_wait_log) {
      if (!environment.has_launcher) logging::info("waiting for the group", {{"waitingFor", text}});
      next_wait_log = now + rank::wait_log_interval;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<milliseconds>(pause * 2, retry_interval_max);
  }
}

std::string key_prefix(const rank::GroupEnvironment& environment) {
  if (environment.uses_agent_store) return fmt::format("trainyard/restart-{}", environment.restart_count);
  return fmt::format("trainyard/{}/{}", environment.job_uid, environment.attempt);
}

}  // namespace

Result<c10::intrusive_ptr<c10d::Store>> open_rendezvous_store(const rank::GroupEnvironment& environment,
                                                              std::int64_t rank, milliseconds deadline,
                                                              rank::RankLink& link) {
  if (environment.world_size == 1) return c10::make_intrusive<c10d::HashStore>();
  const bool hosts = rank == 0 && !environment.has_launcher && !environment.uses_agent_store;
  c10d::TCPStoreOptions options;
  options.port = environment.has_launcher ? environment.store_port : environment.master_port;
  options.waitWorkers = false;
  options.timeout = deadline;
  FileDescriptor listener;
  if (hosts) {
    const auto reach = rank::reach_of(environment.master_address);
    auto listening = TRY(rank::listen_on(reach, options.port, "the rendezvous store (MASTER_PORT)"));
    options.isServer = true;
    options.masterListenFd = listening.release();  // The store owns the descriptor now.
  } else {
    TRY(wait_for_host(environment, options.port, deadline, link));
  }
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(environment.master_address, options);
    return c10::make_intrusive<c10d::PrefixStore>(key_prefix(environment), std::move(store));
  } catch (const std::exception& error) {
    return fail(ErrorKind::unavailable, fmt::format("connecting to the rendezvous store at {}:{}: {}",
                                                    environment.master_address, options.port, message_of(error)));
  }
}

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
  Instant next_wait_log = start + rank::first_wait_log_after;
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
      next_wait_log = now + rank::wait_log_interval;
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
