#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "worker/launcher/peer_group.hpp"

namespace trainyard::launcher {

/// The other launchers' side of the link: finds rank 0's launcher, stays connected, and notices when rank 0's launcher
/// is lost. Pure; SpokeLink has the sockets.
class PeerSpoke final : public PeerGroup {
 public:
  /// Looks the hub's name up again and connects to it.
  struct Connect {
    bool operator==(const Connect&) const = default;
  };
  struct Send {
    PeerMessage message;
    bool operator==(const Send&) const = default;
  };
  /// Closes the connection, and gives up one that is being made.
  struct Close {
    bool operator==(const Close&) const = default;
  };
  using Action = std::variant<Connect, Send, Close>;

  /// `hub`: "host:port", for messages.
  PeerSpoke(const PeerSettings& settings, std::string hub, Instant now);

  void on_open(Instant now);
  void on_message(const PeerMessage& message, Instant now);
  /// The connection ended, or could not be made.
  void on_close(const std::string& why, Instant now);
  void on_time(Instant now);
  [[nodiscard]] std::vector<Action> take_actions();

  void report_failure(const GroupFailure& failure, Instant now) override;
  void report_done(Instant now) override;
  void report_long_waits(std::vector<LongWait> waits, Instant now) override;
  [[nodiscard]] const std::optional<GroupFailure>& verdict() const override { return verdict_; }
  [[nodiscard]] std::string waiting_for(Instant now) const override;

 private:
  enum class State { resting, connecting, greeting, joined, left };

  void on_refusal(const Refusal& refusal, Instant now);
  void rest(std::string why, Instant now);
  void set_verdict(GroupFailure failure);

  PeerSettings settings_;
  std::string hub_;
  Instant start_;
  Instant looked_;
  Instant heard_;
  Instant beat_;
  Instant retry_at_;
  Instant tried_at_;
  State state_ = State::resting;
  std::int64_t failures_ = 0;
  std::string last_trouble_;
  std::optional<std::vector<std::int64_t>> missing_;  ///< The hub's last list of ranks that have not connected.
  std::vector<LongWait> long_waits_;
  std::vector<Action> actions_;
  std::optional<GroupFailure> own_failure_;
  Instant own_failure_at_;
  std::optional<GroupFailure> verdict_;
};

}  // namespace trainyard::launcher
