#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::launcher {

/// Looks one name up on a thread of its own, because the system's resolver blocks for seconds when a server is silent.
/// One thread calls.
class Resolver {
 public:
  using Answer = Result<std::vector<rank::SocketAddress>>;
  /// Called on the resolver's own thread; must not throw.
  using LookUp = std::function<Answer(const std::string& host, std::uint16_t port)>;

  Resolver(std::string host, std::uint16_t port, LookUp look_up = rank::resolve);
  /// Waits for the look-up that is running, if there is one.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// Starts a new look-up.
  void ask();
  /// Becomes readable when there is an answer.
  [[nodiscard]] int file() const { return ready_.get(); }
  /// The answer, once for each ask().
  [[nodiscard]] std::optional<Answer> take_answer();

 private:
  void run(const std::stop_token& stop);

  std::string host_;
  std::uint16_t port_;
  LookUp look_up_;
  FileDescriptor ready_;
  std::mutex mutex_;  // guards is_asked_, answer_
  std::condition_variable_any asked_;
  bool is_asked_ = false;
  std::optional<Answer> answer_;
  std::jthread thread_;
};

}  // namespace trainyard::launcher
