#include "worker/dist/rendezvous_store.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "common/wait_log_intervals.hpp"
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
  Instant next_wait_log = start + first_wait_log_after;
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
      next_wait_log = now + wait_log_interval;
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

}  // namespace trainyard::dist
