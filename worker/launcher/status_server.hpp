#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "common/result.hpp"
#include "worker/launcher/group_environment.hpp"
#include "worker/launcher/status_document.hpp"
#include "worker/launcher/tcp.hpp"

namespace httplib {
class Server;
}

namespace trainyard::launcher {

/// Serves /status and /metrics on threads of its own. One thread updates; it never waits for those who ask.
class StatusServer {
 public:
  /// Listens from now on. ErrorKind::already_exists when the port is in use.
  [[nodiscard]] static Result<std::unique_ptr<StatusServer>> start(const GroupEnvironment& environment, Reach reach,
                                                                   std::uint16_t port, Status first);
  ~StatusServer();

  void update(Status status);

 private:
  StatusServer(const GroupEnvironment& environment, Status first);
  [[nodiscard]] Status status() const;

  GroupEnvironment environment_;
  mutable std::mutex mutex_;  // guards status_
  Status status_;
  std::unique_ptr<httplib::Server> server_;
  std::jthread thread_;
};

}  // namespace trainyard::launcher
