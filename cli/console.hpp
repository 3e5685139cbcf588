#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "common/clock.hpp"

namespace trainyard::cli {

/// A stream that shows lines that stay, and below them one status line that changes: rewritten in place on a terminal,
/// and otherwise (a pipe, a file) written as a line of its own every few seconds when it is another than before. Used
/// by one thread.
class Console {
 public:
  /// `stream` outlives the console. `width`: of the terminal in characters; 0: the stream is no terminal.
  Console(std::FILE* stream, int width) : stream_(stream), width_(width) {}
  ~Console() { clear(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void print(const std::string& line);
  /// Bytes of a program's output, written as they are. Our own words begin a new line after them.
  void write(const std::string& bytes);
  void show(const std::string& status, Instant now);
  /// Takes the status line away.
  void clear();

 private:
  void end_line();

  std::FILE* stream_;
  int width_;
  bool is_line_open_ = false;  // Output that was written has no line end yet.
  std::string shown_;
  Instant shown_at_{};
};

/// Width of the terminal behind `stream`; 0 when it is none.
[[nodiscard]] int terminal_width(std::FILE* stream);

}  // namespace trainyard::cli
