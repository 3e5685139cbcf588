#pragma once

#include <poll.h>

#include <chrono>
#include <vector>

namespace trainyard::launcher {

/// The files that the launcher's one loop waits for. Filled afresh for each wait; what became ready is asked by number.
class PollSet {
 public:
  void add(int file, short events) { files_.push_back({.fd = file, .events = events, .revents = 0}); }
  /// Until one is ready, a signal came, or `time` is over.
  void wait(std::chrono::milliseconds time) {
    if (poll(files_.data(), files_.size(), static_cast<int>(time.count())) <= 0) {
      for (pollfd& file : files_) file.revents = 0;
    }
  }
  /// The events of `file`, errors and hang-ups with them; 0 where there are none, or the file was not waited for.
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
