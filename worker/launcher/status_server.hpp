#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "common/result.hpp"
#include "worker/launcher/checkpoint_endpoint.hpp"
#include "worker/launcher/status_document.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/tcp.hpp"

namespace httplib {
class Server;
}
namespace trainyard::launcher {

/// Starts a thread that runs `listen` until the server is stopped. Returns once `is_running` is true, because stopping
/// a server that does not run yet has no effect. ErrorKind::io when `listen` ends before that; a later failure is
/// logged. The objects that both functions refer to must outlive the thread.
[[nodiscard]] Result<std::jthread> start_serving(std::function<bool()> listen, const std::function<bool()>& is_running);

/// Serves /status and /metrics, and takes requests at /checkpoint, on threads of its own. One thread makes all calls;
/// none of them waits for a client.
class StatusServer {
 public:
  /// Returns a server that listens. ErrorKind::already_exists when the port is in use, io when the server cannot start.
  [[nodiscard]] static Result<std::unique_ptr<StatusServer>> start(const rank::GroupEnvironment& environment,
                                                                   rank::Reach reach, std::uint16_t port,
                                                                   const CheckpointEndpointSettings& requests,
                                                                   Status first);
  ~StatusServer();

  /// Replaces the served status; `status.checkpoint_request` is ignored, as the server keeps it. Once
  /// `is_training_over` is true, later requests are refused.
  void update(Status status, bool is_training_over);
  /// A request that was accepted since the last call.
  [[nodiscard]] std::optional<rank::CheckpointRequest> take_checkpoint_request();
  /// The last accepted request and its outcome.
  [[nodiscard]] std::optional<rank::RequestRecord> request_record() const;

 private:
  StatusServer(const rank::GroupEnvironment& environment, const CheckpointEndpointSettings& requests, Status first);
  void add_handlers();
  [[nodiscard]] Status status() const;
  [[nodiscard]] CheckpointAnswer post(std::string_view authorization, std::string_view body);

  rank::GroupEnvironment environment_;
  mutable std::mutex mutex_;  // guards status_ and endpoint_
  Status status_;
  CheckpointEndpoint endpoint_;
  std::unique_ptr<httplib::Server> server_;
  std::jthread thread_;
};

}  // namespace trainyard::launcher
