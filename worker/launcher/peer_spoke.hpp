#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/backoff.hpp"
#include "worker/launcher/peer_group.hpp"
#include "worker/launcher/peer_settings.hpp"

namespace trainyard::launcher {

/// The link between launchers as every rank but 0's sees it: finding rank 0's launcher, staying in touch, and noticing
/// its loss. Pure.
class PeerSpoke final : public PeerGroup {
 public:
  /// Look the hub's name up afresh and connect to it.
  struct Connect {
    bool operator==(const Connect&) const = default;
  };
  struct Send {
    PeerMessage message;
    bool operator==(const Send&) const = default;
  };
  /// Drops the connection, and the attempt to make one.
  struct Close {
    bool operator==(const Close&) const = default;
  };
  using Action = std::variant<Connect, Send, Close>;

  /// `hub`: "host:port", for sentences.
  PeerSpoke(const PeerSettings& settings, std::string hub, Instant now);

  void on_open(Instant now);
  void on_message(const PeerMessage& message, Instant now);
  /// The connection ended, or did not come about.
  void on_close(const std::string& why, Instant now);
  void on_time(Instant now);
  [[nodiscard]] std::vector<Action> take_actions();

  void report_failure(const GroupFailure& failure, Instant now) override;
  void report_done(Instant now) override;
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
  std::optional<std::vector<std::int64_t>> missing_;  ///< As the hub last said; empty list: all have come.
  std::vector<Action> actions_;
  std::optional<GroupFailure> own_failure_;
  Instant own_failure_at_;
  std::optional<GroupFailure> verdict_;
};

}  // namespace trainyard::launcher
