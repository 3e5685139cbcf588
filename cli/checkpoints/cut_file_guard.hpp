#pragma once

#include <string>

namespace trainyard::cli {

/// While a guard lives, reading a mapped file that somebody truncates meanwhile (SIGBUS) ends the program with one
/// sentence and exit code 1 instead of a crash. A process may have one guard at a time.
class CutFileGuard {
 public:
  /// `path`: the mapped file, which the sentence names.
  explicit CutFileGuard(const std::string& path);
  CutFileGuard(const CutFileGuard&) = delete;
  CutFileGuard& operator=(const CutFileGuard&) = delete;
  ~CutFileGuard();
};

}  // namespace trainyard::cli
