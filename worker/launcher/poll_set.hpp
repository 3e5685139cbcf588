#pragma once

#include <poll.h>

#include <chrono>
#include <vector>

namespace trainyard::launcher {

/// The file descriptors that the launcher's loop waits for. The loop fills a new set for each wait.
class PollSet {
 public:
  void add(int file, short events) { files_.push_back({.fd = file, .events = events, .revents = 0}); }
  /// Waits until a file is ready, a signal comes, or `time` is over.
  void wait(std::chrono::milliseconds time) {
    if (poll(files_.data(), files_.size(), static_cast<int>(time.count())) <= 0) {
      for (pollfd& file : files_) file.revents = 0;
    }
  }
  /// The events of `file`, including errors and hang-ups; 0 when `file` is not ready or not in the set.
  [[nodiscard]] short events(int file) const {
    for (const pollfd& waited : files_) {
      if (waited.fd == file) return waited.revents;
    }
    return 0;
  }

 private:
  std::vector<pollfd> files_;
};

}  // namespace trainyard::launcher
