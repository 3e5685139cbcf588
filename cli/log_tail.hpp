#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "local/log_files.hpp"

namespace trainyard::cli {

/// Reads what is appended to a file, which may not exist yet. Used by one thread.
class LogTail {
 public:
  explicit LogTail(std::filesystem::path file) : file_{std::move(file)} {}

  /// The bytes since the last call, at most 1 MiB; empty when there are none.
  [[nodiscard]] std::string read();
  /// As read(), but only whole lines: an incomplete last line is kept back until it ends.
  [[nodiscard]] std::string read_lines();
  /// As read_lines(), but an incomplete line is kept back for one call only.
  [[nodiscard]] std::string read_soon();
  /// All that is left, with an incomplete line that was kept back or is the last.
  [[nodiscard]] std::string read_rest();
  /// The incomplete line that read_lines() or read_soon() kept back.
  [[nodiscard]] std::string rest() { return std::exchange(part_, {}); }

 private:
  std::filesystem::path file_;
  std::int64_t position_ = 0;
  std::string part_;
};

/// `lines` with `prefix` before each line.
[[nodiscard]] std::string with_prefix(const std::string& lines, const std::string& prefix);

struct FollowedLog {
  std::int64_t rank = 0;
  local::LogStream stream = local::LogStream::both;
  std::string prefix;  ///< Printed before each line.
  bool operator==(const FollowedLog&) const = default;
};

/// New output of ranks, split by the stream of ours to which it is printed. The output of ranks whose streams share a
/// log is `output`.
struct RankOutput {
  std::string output;
  std::string error;
  bool operator==(const RankOutput&) const = default;
};

/// Reads ranks' output while they write it, attempt after attempt. Used by one thread.
class OutputFollower {
 public:
  OutputFollower(std::filesystem::path logs, std::vector<FollowedLog> followed)
      : logs_{std::move(logs)}, followed_{std::move(followed)} {}

  /// The new output of `attempt`. The first call for a later attempt also returns the rest of the previous attempt's
  /// output. With a prefix, only whole lines; without one, an incomplete line (a prompt, a progress bar) is one call
  /// late.
  [[nodiscard]] RankOutput read(std::int64_t attempt);
  /// All remaining output, also an incomplete last line.
  [[nodiscard]] RankOutput read_rest();

 private:
  static void append(const FollowedLog& log, const std::string& text, RankOutput& news);

  const std::filesystem::path logs_;
  const std::vector<FollowedLog> followed_;
  std::int64_t attempt_ = 0;
  std::vector<LogTail> tails_;
};

}  // namespace trainyard::cli
