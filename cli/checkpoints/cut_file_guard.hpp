#pragma once

#include <string>

namespace trainyard::cli {

/// While a guard lives, SIGBUS ends the program with an error message and exit code 1 instead of a crash. The signal
/// comes when the program reads a mapped file that was truncated meanwhile. A process may have one guard at a time.
class CutFileGuard {
 public:
  /// `path`: the mapped file, for the message.
  explicit CutFileGuard(const std::string& path);
  CutFileGuard(const CutFileGuard&) = delete;
  CutFileGuard& operator=(const CutFileGuard&) = delete;
  ~CutFileGuard();
};

}  // namespace trainyard::cli
