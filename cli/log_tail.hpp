#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace trainyard::cli {

/// What has come new into a file that grows and may not exist yet. Used by one thread.
class LogTail {
 public:
  explicit LogTail(std::filesystem::path file) : file_(std::move(file)) {}

  /// The bytes since the last call, at most 1 MiB; empty when there are none.
  [[nodiscard]] std::string read();
  /// As read(), up to the end of the last line; the rest is kept back until its line has ended.
  [[nodiscard]] std::string read_lines();
  /// As read_lines(), but once an earlier call has kept something back, that comes too with all that follows it.
  [[nodiscard]] std::string read_soon();
  /// What these two have kept back.
  [[nodiscard]] std::string rest() { return std::exchange(part_, {}); }

 private:
  std::filesystem::path file_;
  std::int64_t position_ = 0;
  std::string part_;
};

/// `lines` with `prefix` before each.
[[nodiscard]] std::string with_prefix(const std::string& lines, const std::string& prefix);

}  // namespace trainyard::cli
