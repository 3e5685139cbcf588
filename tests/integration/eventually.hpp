#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace trainyard::integration {

/// True when `holds` becomes true within a time that is generous even on a loaded machine. Polls, since `holds` asks
/// other processes, which send no notice.
inline bool eventually(const std::function<bool()>& holds, std::chrono::seconds limit = std::chrono::seconds{90}) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  return true;
}

}  // namespace trainyard::integration
