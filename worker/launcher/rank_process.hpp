#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"
#include "worker/launcher/death.hpp"
#include "worker/launcher/options.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::launcher {

/// How a rank's process ended.
struct RankExit {
  Death death;
  std::vector<rank::RankMessage> last_words;  ///< Messages that nobody had received yet.
};

/// One rank's process and the launcher's end of its socket pair.
class RankProcess {
 public:
  /// Starts local rank `local_rank` with the rank environment. ErrorKind::not_found where the program cannot be
  /// executed.
  [[nodiscard]] static Result<RankProcess> start(const Options& options, std::int64_t local_rank);

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool is_reaped() const { return is_reaped_; }
  /// For the loop to wait for; -1 once the rank has closed its end.
  [[nodiscard]] int file() const { return socket_.get(); }
  /// What the rank has said since the last call. What is no message is logged and left out.
  [[nodiscard]] std::vector<rank::RankMessage> receive();
  /// Never blocks; a rank that reads nothing is killed soon anyway.
  void tell(const rank::RankMessage& message) const;
  /// SIGKILL goes to the children that it left in its process group as well; other signals to the rank alone. False,
  /// and nothing is sent, once it was reaped: its number may be another's.
  bool send_signal(int signal) const;
  /// Kills the children that it left in its process group, while its number is still its own, and reaps it. Once, and
  /// only when the process has ended.
  [[nodiscard]] RankExit reap();

 private:
  RankProcess(pid_t pid, FileDescriptor socket) : pid_{pid}, socket_{std::move(socket)} {}

  pid_t pid_;
  bool is_reaped_ = false;
  FileDescriptor socket_;
};

/// The rank's environment: the launcher's, with the rank's own place, its link, and what must stand before it starts.
[[nodiscard]] std::vector<std::string> rank_environment(std::vector<std::string> base, const Options& options,
                                                        std::int64_t local_rank, std::int64_t threads, int link);

}  // namespace trainyard::launcher
