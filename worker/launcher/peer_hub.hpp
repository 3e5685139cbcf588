#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "worker/launcher/peer_group.hpp"

namespace trainyard::launcher {

/// Rank 0's side of the link between launchers: knows which launchers have connected, which are silent, and which
/// failure was the first. Pure; HubLink has the sockets.
class PeerHub final : public PeerGroup {
 public:
  using ConnectionId = std::int64_t;
  struct Send {
    ConnectionId connection = 0;
    PeerMessage message;
    bool operator==(const Send&) const = default;
  };
  /// Closes the connection once all earlier messages are sent.
  struct Close {
    ConnectionId connection = 0;
    bool operator==(const Close&) const = default;
  };
  using Action = std::variant<Send, Close>;

  PeerHub(const PeerSettings& settings, Instant now);

  void on_open(ConnectionId connection, std::string address, Instant now);
  void on_message(ConnectionId connection, const PeerMessage& message, Instant now);
  void on_close(ConnectionId connection, const std::string& why, Instant now);
  void on_time(Instant now);
  [[nodiscard]] std::vector<Action> take_actions();

  void report_failure(const GroupFailure& failure, Instant now) override;
  void report_done(Instant now) override;
  void report_long_waits(std::vector<LongWait> waits, Instant now) override;
  [[nodiscard]] const std::optional<GroupFailure>& verdict() const override { return verdict_; }
  [[nodiscard]] std::string waiting_for(Instant now) const override;

 private:
  struct Connection {
    std::string address;
    Instant heard;
    std::optional<Hello> hello;  ///< Empty until the launcher has said hello and was accepted.
    bool is_done = false;
    std::vector<LongWait> long_waits;  ///< The long waits of the launcher's last beat.
  };

  void greet(ConnectionId id, Connection& connection, const Hello& hello);
  void refuse(ConnectionId id, std::string message);
  void check_for_mismatch(Instant now);
  [[nodiscard]] std::vector<std::int64_t> missing_ranks() const;
  [[nodiscard]] std::optional<std::string> objection_to(const Hello& hello) const;

  PeerSettings settings_;
  Instant start_;
  Instant looked_;
  Instant beat_;
  std::map<ConnectionId, Connection> connections_;
  std::map<std::int64_t, Hello> arrived_;  ///< By first rank; an entry stays when its connection has ended.
  std::vector<LongWait> own_long_waits_;
  MismatchWatch mismatch_watch_;
  std::vector<Action> actions_;
  std::optional<GroupFailure> verdict_;
  bool is_done_ = false;
};

}  // namespace trainyard::launcher
