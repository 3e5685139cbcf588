#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"
#include "worker/launcher/culprit.hpp"
#include "worker/launcher/options.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::launcher {

/// How a rank's process ended.
struct RankExit {
  Death death;
  std::vector<rank::RankMessage> last_words;  ///< Messages that were not received before.
};

/// One rank's process and the launcher's end of its socket pair.
class RankProcess {
 public:
  /// Starts the rank with number `local_rank` in this pod. ErrorKind::not_found when the program cannot be executed.
  [[nodiscard]] static Result<RankProcess> start(const Options& options, std::int64_t local_rank);

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool is_reaped() const { return is_reaped_; }
  /// The descriptor that the loop waits for; -1 once the rank has closed its end.
  [[nodiscard]] int file() const { return socket_.get(); }
  /// The rank's messages since the last call. A malformed message is logged and skipped.
  [[nodiscard]] std::vector<rank::RankMessage> receive();
  /// Sends `message`. Never blocks: a message that does not fit is dropped.
  void tell(const rank::RankMessage& message) const;
  /// Sends SIGKILL to the rank's whole process group, and any other signal to the rank alone. Once the rank was reaped,
  /// its pid may be another process's: nothing is sent then, and false is returned.
  bool send_signal(int signal) const;
  /// Kills the children that the rank left in its process group, and reaps the rank. To be called once, after the
  /// process has ended.
  [[nodiscard]] RankExit reap();

 private:
  RankProcess(pid_t pid, FileDescriptor socket) : pid_{pid}, socket_{std::move(socket)} {}

  pid_t pid_;
  bool is_reaped_ = false;
  FileDescriptor socket_;
};

/// The rank's environment: `base` with the rank's numbers, its `link`, and settings that the rank cannot set for itself
/// after its start.
[[nodiscard]] std::vector<std::string> complete_rank_environment(std::vector<std::string> base, const Options& options,
                                                                 std::int64_t local_rank, std::int64_t threads,
                                                                 int link);

}  // namespace trainyard::launcher
