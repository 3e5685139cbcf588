#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "common/clock.hpp"

namespace trainyard::cli {

/// A stream with lines that stay and, below them, one status line that changes. On a terminal the status line is
/// rewritten in place; on a pipe or file a changed status becomes a new line every few seconds. Used by one thread.
class Console {
 public:
  /// `stream` must outlive the console. `width`: the terminal's width in characters; 0: the stream is no terminal.
  Console(std::FILE* stream, int width) : stream_{stream}, width_{width} {}
  ~Console() { clear(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void print(const std::string& line);
  /// Writes a program's output unchanged. A later print() or show() begins a new line after it.
  void write(const std::string& bytes);
  void show(const std::string& status, Instant now);
  /// Removes the status line.
  void clear();

 private:
  void end_line();

  std::FILE* stream_;
  int width_;
  bool is_line_open_ = false;  // The last written output did not end its line.
  std::string shown_;
  Instant shown_at_{};
};

/// The width of the terminal that `stream` writes to; 0: it is no terminal.
[[nodiscard]] int terminal_width(std::FILE* stream);

}  // namespace trainyard::cli
