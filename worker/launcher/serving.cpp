#include "worker/launcher/serving.hpp"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/logging.hpp"

namespace trainyard::launcher {
namespace {

/// How a server's thread ended.
class ServerEnd {
 public:
  void set(std::string why) {
    const std::scoped_lock lock{mutex_};
    why_ = std::move(why);
  }
  [[nodiscard]] std::optional<std::string> get() const {
    const std::scoped_lock lock{mutex_};
    return why_;
  }

 private:
  mutable std::mutex mutex_;  // guards why_
  std::optional<std::string> why_;
};

}  // namespace

Result<std::jthread> start_serving(std::function<bool()> listen, const std::function<bool()>& is_running) {
  const auto end = std::make_shared<ServerEnd>();
  std::jthread thread{[listen = std::move(listen), end] {
    std::string why = "the server was stopped";
    try {
      if (!listen()) {
        why = "accepting connections failed";
        logging::error("server ended", {{"error", why}});
      }
    } catch (const std::exception& error) {
      why = error.what();
      logging::error("server ended", {{"error", why}});
    }
    end->set(std::move(why));
  }};
  while (!is_running()) {
    if (const auto why = end->get()) return fail(ErrorKind::io, fmt::format("the server cannot listen: {}", *why));
    std::this_thread::yield();
  }
  return thread;
}

}  // namespace trainyard::launcher
