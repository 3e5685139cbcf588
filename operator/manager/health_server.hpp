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

/// True when the API server has answered within `silence_max`, or `silence_max` is zero. A longer silence may come from
/// a state of this process that only a restart clears.
[[nodiscard]] bool is_heard(Instant last_answer, Instant now, std::chrono::seconds silence_max);

struct HealthAnswers {
  std::function<bool()> is_live;
  std::function<bool()> is_ready;
  std::function<std::string()> metrics;  ///< Prometheus' text format.
};

/// Serves /healthz, /readyz and /metrics over plain HTTP until it is destroyed.
class HealthServer {
 public:
  /// `address` is "host:port" or "[host]:port"; port 0 picks a free one. ErrorKind::invalid when it has neither form,
  /// io when the port is taken. Calls `answers` on its own threads.
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
