#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::control {

/// The part of a coordination.k8s.io Lease that an election reads and writes.
struct Lease {
  std::string name_space;
  std::string name;
  std::string resource_version;
  std::string holder;  ///< Empty: no holder.
  std::chrono::seconds duration{0};
  std::int64_t transitions = 0;
  std::optional<Time> acquired;
  std::optional<Time> renewed;  ///< By the clock of the holder's machine: compare for equality only.
  bool operator==(const Lease&) const = default;
};

/// ErrorKind::invalid names the field.
[[nodiscard]] Result<Lease> parse_lease(const nlohmann::json& object);
[[nodiscard]] nlohmann::json to_json(const Lease& lease);

struct ElectionTimes {
  std::chrono::milliseconds lease{4'000};  ///< How long others leave an unrenewed lease alone. Whole seconds.
  std::chrono::milliseconds renew{1'000};
  /// How long we lead after a renewal that was stored, from when it was sent. Less than `lease`, so that we stop before
  /// others may take the lease.
  std::chrono::milliseconds give_up{3'000};
  std::chrono::milliseconds retry{500};
};

/// Decides what a candidate does next, from what it has read and written; does no I/O. All times are of this machine's
/// monotonic clock: another holder's lease begins when the Lease was seen to change, ours when we asked for it. One
/// thread at a time.
class Election {
 public:
  enum class Action {
    read,    ///< Get the lease, then `observe` it.
    create,  ///< There is no lease.
    take,    ///< The lease has no holder, or its holder has not renewed it for its duration.
    renew,   ///< The lease is ours.
    wait,    ///< Until `next_action_at`.
  };

  Election(std::string holder, ElectionTimes times) : holder_{std::move(holder)}, times_{times} {}

  [[nodiscard]] Action next_action(Instant now) const;
  [[nodiscard]] Instant next_action_at() const { return next_action_at_; }

  /// Records the lease as read at `now`; empty if there is none.
  void observe(const std::optional<Lease>& lease, Instant now);
  /// Records that our write, sent at `asked_at`, was stored as `lease`.
  void hold(const Lease& lease, Instant asked_at);
  /// Records that a read or write failed at `now`.
  void fail(Instant now);

  /// The lease to write for create, take or renew. `calendar` is for people who read the lease.
  [[nodiscard]] Lease to_write(std::string name_space, std::string name, Time calendar) const;
  /// The lease to write to give it back. Call only while the lease is ours.
  [[nodiscard]] Lease to_release(Time calendar) const;

  /// Until when our last stored write makes us leader, whatever happens. A time in the past means that we are not
  /// leader.
  [[nodiscard]] Instant leader_until() const { return leader_until_; }

 private:
  [[nodiscard]] bool is_ours() const { return seen_ && seen_->holder == holder_; }
  /// When another holder's lease, seen_, may be taken.
  [[nodiscard]] Instant expires_at() const;

  std::string holder_;
  ElectionTimes times_;
  bool is_fresh_ = false;  // nothing has failed since seen_ was read or written
  std::optional<Lease> seen_;
  Instant changed_at_{};  // when seen_ was first seen as it is
  Instant next_action_at_{};
  Instant leader_until_{};
};

}  // namespace trainyard::control
