#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "common/result.hpp"
#include "worker/launcher/checkpoint_desk.hpp"
#include "worker/launcher/status_document.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/tcp.hpp"

namespace httplib {
class Server;
}

namespace trainyard::launcher {

/// Serves /status and /metrics, and takes requests at /checkpoint, on threads of its own. One thread updates and takes;
/// it never waits for those who ask.
class StatusServer {
 public:
  /// Listens from now on. ErrorKind::already_exists when the port is in use, io when the system has no room for its
  /// threads.
  [[nodiscard]] static Result<std::unique_ptr<StatusServer>> start(const rank::GroupEnvironment& environment,
                                                                   rank::Reach reach, std::uint16_t port,
                                                                   const CheckpointDeskSettings& requests,
                                                                   Status first);
  ~StatusServer();

  /// `status` without its request, which is this server's to know; `is_training_over`: no other is taken any more.
  void update(Status status, bool is_training_over);
  /// The request that was taken last, once.
  [[nodiscard]] std::optional<rank::CheckpointRequest> take_checkpoint_request();
  /// What has come of it.
  [[nodiscard]] std::optional<rank::CheckpointRecord> checkpoint_record() const;

 private:
  StatusServer(const rank::GroupEnvironment& environment, const CheckpointDeskSettings& requests, Status first);
  void add_handlers();
  [[nodiscard]] Status status() const;
  [[nodiscard]] CheckpointAnswer post(std::string_view authorization, std::string_view body);

  rank::GroupEnvironment environment_;
  mutable std::mutex mutex_;  // guards the two below
  Status status_;
  CheckpointDesk desk_;
  std::unique_ptr<httplib::Server> server_;
  std::jthread thread_;
};

}  // namespace trainyard::launcher
