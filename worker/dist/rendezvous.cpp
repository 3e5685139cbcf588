#include "worker/dist/rendezvous.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

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
  if (environment.uses_agent_store) return "trainyard";  // answer_roll_call() tells its groups apart.
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

constexpr auto look_interval_min = 5ms;
constexpr auto look_interval_max = 200ms;
constexpr std::size_t missing_max = 9;        // A message does not name more.
constexpr std::size_t keys_at_once_max = 64;  // Per question to the rendezvous store: 16 for a thousand ranks.

using Bytes = std::vector<std::uint8_t>;

std::vector<std::string> keys_of_ranks(std::string_view prefix, std::int64_t world_size) {
  std::vector<std::string> keys;
  for (std::int64_t rank = 0; rank < world_size; ++rank) keys.push_back(fmt::format("{}/{}", prefix, rank));
  return keys;
}

std::vector<std::int64_t> missing_of(c10d::Store& store, const std::vector<std::string>& keys) {
  std::vector<std::int64_t> missing;
  for (std::size_t begin = 0; begin < keys.size(); begin += keys_at_once_max) {
    const std::size_t end = std::min(begin + keys_at_once_max, keys.size());
    if (store.check(
            {keys.begin() + static_cast<std::ptrdiff_t>(begin), keys.begin() + static_cast<std::ptrdiff_t>(end)}))
      continue;
    for (std::size_t rank = begin; rank < end && missing.size() < missing_max; ++rank) {
      if (!store.check({keys[rank]})) missing.push_back(static_cast<std::int64_t>(rank));
    }
    if (missing.size() == missing_max) break;
  }
  return missing;
}

/// A group that comes together in a rendezvous store of its own: it is together when all ranks have set their keys.
class FreshStore {
 public:
  FreshStore(c10d::Store& store, const RollCall& call)
      : store_{store}, arrived_{keys_of_ranks("arrived", call.world_size)} {
    store.set(arrived_[static_cast<std::size_t>(call.rank)], Bytes{1});
  }
  [[nodiscard]] bool is_together() { return store_.check(arrived_); }
  [[nodiscard]] std::vector<std::int64_t> missing() { return missing_of(store_, arrived_); }

 private:
  c10d::Store& store_;
  const std::vector<std::string> arrived_;
};

constexpr std::size_t token_size = 16;

std::string make_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

/// A group that comes together in a store with keys of earlier groups. Each process has a token. Rank 0 announces a
/// group, by an id and the tokens that it has found; each rank accepts the announcement that has its token; and rank 0
/// says that the group is formed when all have accepted. Where rank 0 finds another token later, since the first was
/// that of an ended process, it announces another group.
class StandingStore {
 public:
  StandingStore(c10d::Store& store, const RollCall& call)
      : store_{store}, rank_{call.rank}, arrived_{keys_of_ranks("arrived", call.world_size)} {
    arrive();
  }
  [[nodiscard]] bool is_together() { return rank_ == 0 ? have_all_accepted() : is_accepted_and_formed(); }
  /// Never empty: where all other ranks are there, rank 0 has not announced the group, or not said that it is formed.
  [[nodiscard]] std::vector<std::int64_t> missing() {
    auto missing = missing_of(store_, id_.empty() ? arrived_ : accepted_keys());
    if (missing.empty()) missing.push_back(0);
    return missing;
  }
  /// The keys of this group alone begin with it. Valid when the group is together.
  [[nodiscard]] std::string prefix() const { return "group-" + id_; }

 private:
  void arrive() { store_.set(own_key(), Bytes{token_.begin(), token_.end()}); }
  [[nodiscard]] const std::string& own_key() const { return arrived_[static_cast<std::size_t>(rank_)]; }
  /// True when the rendezvous store has this process for the rank. A process of an earlier group that ends late may
  /// have written itself over it; then it is put right.
  [[nodiscard]] bool has_arrived() {
    if (store_.get(own_key()) == Bytes{token_.begin(), token_.end()}) return true;
    arrive();
    return false;
  }
  [[nodiscard]] std::vector<std::string> accepted_keys() const {
    return keys_of_ranks("accepted-" + id_, static_cast<std::int64_t>(arrived_.size()));
  }
  [[nodiscard]] std::string formed_key() const { return "formed-" + id_; }

  bool have_all_accepted() {
    if (!has_arrived() || !store_.check(arrived_)) return false;
    auto tokens = store_.multiGet(arrived_);
    if (tokens != announced_) announce(std::move(tokens));
    if (!store_.check(accepted_keys())) return false;
    store_.set(formed_key(), Bytes{1});
    return true;
  }
  void announce(std::vector<Bytes> tokens) {
    announced_ = std::move(tokens);
    id_ = make_token();
    Bytes text{id_.begin(), id_.end()};
    for (const Bytes& token : announced_) text.insert(text.end(), token.begin(), token.end());
    store_.set("announced", text);
    store_.set(accepted_keys().front(), Bytes{1});
  }

  bool is_accepted_and_formed() {
    if (!has_arrived() || !store_.check({"announced"})) return false;
    const Bytes bytes = store_.get("announced");
    const std::string text{bytes.begin(), bytes.end()};
    const bool is_ours = text.size() == token_size * (arrived_.size() + 1) &&
                         text.substr(token_size * static_cast<std::size_t>(rank_ + 1), token_size) == token_;
    if (!is_ours) return false;
    if (const std::string id = text.substr(0, token_size); id != id_) {
      id_ = id;
      store_.set(accepted_keys()[static_cast<std::size_t>(rank_)], Bytes{1});
    }
    return store_.check({formed_key()});
  }

  c10d::Store& store_;
  const std::int64_t rank_;
  const std::string token_ = make_token();
  const std::vector<std::string> arrived_;
  std::vector<Bytes> announced_;  // rank 0's
  std::string id_;                // of the newest announcement that has our token
};

template <typename Group>
Result<void> wait_until_together(Group& group, const RollCall& call, rank::RankLink& link) {
  const Instant start = std::chrono::steady_clock::now();
  Instant next_wait_log = start + rank::first_wait_log_after;
  milliseconds pause = look_interval_min;
  while (!group.is_together()) {
    const Instant now = std::chrono::steady_clock::now();
    const auto waited = std::chrono::duration_cast<milliseconds>(now - start);
    if (const auto failure = link.group_failure()) return fail(ErrorKind::cancelled, failure->message);
    if (link.is_stop_requested()) return fail(ErrorKind::cancelled, "asked to stop while the group was forming");
    if (now >= next_wait_log || waited >= call.deadline) {
      const auto missing = group.missing();
      if (missing.empty()) continue;  // The last ones have just come.
      const std::string text = rank::missing_ranks_text(missing, call.world_size, waited);
      if (waited >= call.deadline) return fail(ErrorKind::timeout, "the group did not come together: " + text);
      if (call.logs) logging::info("waiting for the group", {{"rank", call.rank}, {"waitingFor", text}});
      rank::RankProgress progress;
      progress.phase = "Rendezvous";
      progress.waiting_for = text;
      link.report(progress);
      next_wait_log = now + rank::wait_log_interval;
    }
    // Polls, because a wait in the rendezvous store would not end when the group breaks.
    std::this_thread::sleep_for(pause);
    pause = std::min<milliseconds>(pause * 2, look_interval_max);
  }
  return {};
}

}  // namespace

Result<c10::intrusive_ptr<c10d::Store>> answer_roll_call(const c10::intrusive_ptr<c10d::Store>& store,
                                                         const RollCall& call, rank::RankLink& link) {
  if (link.is_stop_requested()) return fail(ErrorKind::cancelled, "asked to stop while the group was forming");
  try {
    if (!call.is_standing_store) {
      FreshStore group{*store, call};
      return wait_until_together(group, call, link).map([&] { return store; });
    }
    StandingStore group{*store, call};
    return wait_until_together(group, call, link).map([&]() -> c10::intrusive_ptr<c10d::Store> {
      return c10::make_intrusive<c10d::PrefixStore>(group.prefix(), store);
    });
  } catch (const std::exception& error) {
    return fail(ErrorKind::unavailable, "asking the rendezvous store who has come: " + message_of(error));
  }
}

}  // namespace trainyard::dist
