#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/clock.hpp"
#include "operator/control/lease.hpp"

namespace trainyard::control {

struct ElectionTimes {
  std::chrono::milliseconds lease{4'000};  ///< How long others leave an unrenewed lease alone. Whole seconds.
  std::chrono::milliseconds renew{1'000};
  std::chrono::milliseconds give_up{3'000};  ///< Less than `lease`: we stop before others may start.
  std::chrono::milliseconds retry{500};
};

/// What a candidate should do next, from what it has read and written, as a pure step. All times are this machine's
/// monotonic ones: another's lease runs from when its record was seen to change, ours from before we asked for it. One
/// thread at a time.
class Election {
 public:
  enum class Action {
    read,    ///< Get the lease, then `observe` it.
    create,  ///< There is none.
    take,    ///< It is nobody's, or its holder has not renewed it for its duration.
    renew,   ///< It is ours.
    wait,    ///< Until `next_action_at`.
  };

  Election(std::string holder, ElectionTimes times) : holder_{std::move(holder)}, times_{times} {}

  [[nodiscard]] Action next_action(Instant now) const;
  [[nodiscard]] Instant next_action_at() const { return next_action_at_; }

  /// The lease as read at `now`; empty: there is none.
  void observe(const std::optional<Lease>& lease, Instant now);
  /// Our create, take or renew, asked for at `asked_at`, was stored as `lease`.
  void hold(const Lease& lease, Instant asked_at);
  /// A read or write failed at `now`: nothing was learned.
  void fail(Instant now);

  /// What to write for create, take or renew. `calendar` is for people who read the lease.
  [[nodiscard]] Lease to_write(std::string name_space, std::string name, Time calendar) const;
  /// What to write to give the lease back. Only while it is ours.
  [[nodiscard]] Lease to_release(Time calendar) const;

  /// Until when our last stored write makes us leader, whatever happens. In the past: we are not.
  [[nodiscard]] Instant leader_until() const { return leader_until_; }

 private:
  [[nodiscard]] bool is_ours() const { return seen_ && seen_->holder == holder_; }
  /// When seen_, which is another's, may be taken.
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
