#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/log_tail.hpp"
#include "local/log_files.hpp"

namespace trainyard::cli {

struct FollowedLog {
  std::int64_t rank = 0;
  local::LogStream stream = local::LogStream::both;
  std::string prefix;  ///< Of each line.
  bool operator==(const FollowedLog&) const = default;
};

/// New output by the stream of ours that it belongs on; what ranks write into one log is all `output`.
struct RankOutput {
  std::string output;
  std::string error;
  bool operator==(const RankOutput&) const = default;
};

/// Output of ranks as it comes, attempt after attempt. Used by one thread.
class OutputFollower {
 public:
  OutputFollower(std::filesystem::path logs, std::vector<FollowedLog> followed)
      : logs_(std::move(logs)), followed_(std::move(followed)) {}

  /// What is new in the logs of `attempt`; at its first call for a later attempt also all that was left of the one
  /// before.
  /// Behind a prefix only whole lines; otherwise a part of one (a prompt, a progress bar) comes a call later.
  [[nodiscard]] RankOutput read(std::int64_t attempt);
  /// All that is left, whole lines or not.
  [[nodiscard]] RankOutput read_rest();

 private:
  static void append(const FollowedLog& log, const std::string& text, RankOutput& news);

  const std::filesystem::path logs_;
  const std::vector<FollowedLog> followed_;
  std::int64_t attempt_ = 0;
  std::vector<LogTail> tails_;
};

}  // namespace trainyard::cli
