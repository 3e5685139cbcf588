#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

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
  /// The incomplete line that read_lines() or read_soon() kept back.
  [[nodiscard]] std::string rest() { return std::exchange(part_, {}); }

 private:
  std::filesystem::path file_;
  std::int64_t position_ = 0;
  std::string part_;
};

/// `lines` with `prefix` before each line.
[[nodiscard]] std::string with_prefix(const std::string& lines, const std::string& prefix);

}  // namespace trainyard::cli
