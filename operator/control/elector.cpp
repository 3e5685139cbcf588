#include "operator/control/elector.hpp"

#include <algorithm>

#include "common/interruptible_wait.hpp"
#include "common/logging.hpp"

namespace trainyard::control {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

Elector::Elector(kube::Api& api, const Clock& clock, ElectorOptions options)
    : api_{api},
      clock_{clock},
      options_{std::move(options)},
      election_{options_.holder, options_.times},
      thread_{[this](const std::stop_token& stop) { run(stop); }} {}

Elector::~Elector() {
  thread_.request_stop();
  thread_.join();
  release();
}

bool Elector::is_leader() const {
  return clock_.instant() < leader_until_.load();
}

bool Elector::wait_until_leader(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  is_candidate_ = true;
  return changed_.wait(lock, stop, [this] { return is_leader(); }) && !stop.stop_requested();
}

void Elector::wait_until_not_leader(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested() && is_leader()) {
    // The lead may end by time alone, which notifies nobody.
    changed_.wait_for(lock, stop, leader_until_.load() - clock_.instant(), [this] { return !is_leader(); });
  }
  if (is_leader()) return;
  // From now on a renewal in flight no longer makes us leader.
  is_candidate_ = false;
  leader_until_ = Instant{};
}

bool Elector::is_candidate() const {
  const std::scoped_lock lock{mutex_};
  return is_candidate_;
}

void Elector::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Instant now = clock_.instant();
    const Election::Action action = election_.next_action(now);
    if (action == Election::Action::wait) {
      // Rounded up, because a wait that ends a moment early would only be followed by another.
      const auto left = duration_cast<milliseconds>(election_.next_action_at() - now) + milliseconds{1};
      if (!wait_unless_stopped(stop, left)) return;
    } else {
      take_action(action);
    }
  }
}

void Elector::take_action(Election::Action action) {
  if (action == Election::Action::read) {
    read();
  } else if (!is_candidate()) {
    election_.fail(clock_.instant());  // reads the lease again later
  } else {
    write(action);
  }
  publish();
}

void Elector::read() {
  const auto object = api_.get(kube::leases, options_.name_space, options_.name);
  const Instant now = clock_.instant();
  if (!object && object.error().kind == ErrorKind::not_found) {
    has_seen_lease_ = true;
    return election_.observe(std::nullopt, now);
  }
  const Result<Lease> lease = object ? parse_lease(*object) : tl::unexpected(object.error());
  if (!lease) {
    logging::warn("reading the lease failed", {{"error", lease.error().message}});
    return election_.fail(now);
  }
  has_seen_lease_ = true;
  election_.observe(*lease, now);
}

void Elector::write(Election::Action action) {
  const Instant asked_at = clock_.instant();
  const auto object = to_json(election_.to_write(options_.name_space, options_.name, clock_.now()));
  const auto stored = action == Election::Action::create ? api_.create(kube::leases, options_.name_space, object)
                                                         : api_.update(kube::leases, options_.name_space, object);
  const Result<Lease> lease = stored ? parse_lease(*stored) : tl::unexpected(stored.error());
  if (!lease) {
    const bool is_lost_race =
        lease.error().kind == ErrorKind::conflict || lease.error().kind == ErrorKind::already_exists;
    if (!is_lost_race) logging::warn("writing the lease failed", {{"error", lease.error().message}});
    return election_.fail(clock_.instant());
  }
  election_.hold(*lease, asked_at);
}

void Elector::publish() {
  const bool was_leader = is_leader();
  {
    const std::scoped_lock lock{mutex_};
    leader_until_ = is_candidate_ ? election_.leader_until() : Instant{};
  }
  changed_.notify_all();
  if (is_leader() && !was_leader) logging::info("leading", {{"identity", options_.holder}});
}

void Elector::release() {
  if (!is_leader()) return;
  leader_until_ = Instant{};
  const auto released = api_.update(kube::leases, options_.name_space, to_json(election_.to_release(clock_.now())));
  if (!released) logging::warn("giving back the lease failed", {{"error", released.error().message}});
}

}  // namespace trainyard::control
