#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace httplib {
class Server;
}

namespace trainyard::manager {

/// True when the API server has answered within `silence_max`, or that is zero. After a longer silence the cause may be
/// state of this process that only a restart mends.
[[nodiscard]] bool is_heard(Instant last_answer, Instant now, std::chrono::seconds silence_max);

struct HealthAnswers {
  std::function<bool()> is_live;
  std::function<bool()> is_ready;
  std::function<std::string()> metrics;  ///< Prometheus' text format.
};

/// Serves /healthz, /readyz and /metrics over plain HTTP until its end.
class HealthServer {
 public:
  /// `address` is "host:port" or "[host]:port"; port 0 picks a free one. ErrorKind::invalid when it is neither, io when
  /// the port is taken. The answers are called on the server's threads.
  [[nodiscard]] static Result<std::unique_ptr<HealthServer>> start(std::string_view address, HealthAnswers answers);
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  [[nodiscard]] int port() const { return port_; }

 private:
  explicit HealthServer(HealthAnswers answers);

  const HealthAnswers answers_;
  std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  std::jthread thread_;
};

}  // namespace trainyard::manager
