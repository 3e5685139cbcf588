#include "cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

namespace trainyard::cli {
namespace {

constexpr std::chrono::seconds pipe_interval{5};
constexpr int usual_width = 80;

}  // namespace

void Console::print(const std::string& line) {
  clear();
  end_line();
  std::fprintf(stream_, "%s\n", line.c_str());
  std::fflush(stream_);
}

void Console::write(const std::string& bytes) {
  clear();
  std::fwrite(bytes.data(), 1, bytes.size(), stream_);
  is_line_open_ = !bytes.ends_with('\n');
  std::fflush(stream_);
}

void Console::show(const std::string& status, Instant now) {
  if (status.empty() || status == shown_) return;
  if (width_ == 0) {
    if (!shown_.empty() && now - shown_at_ < pipe_interval) return;
    end_line();
    std::fprintf(stream_, "%s\n", status.c_str());
  } else {
    if (shown_.empty()) end_line();
    // Cut to the width: a line that wraps cannot be rewritten in place.
    const std::string_view visible = std::string_view{status}.substr(0, static_cast<std::size_t>(width_ - 1));
    std::fprintf(stream_, "\r\033[K%.*s", static_cast<int>(visible.size()), visible.data());
  }
  std::fflush(stream_);
  shown_ = status;
  shown_at_ = now;
}

void Console::end_line() {
  if (std::exchange(is_line_open_, false)) std::fputc('\n', stream_);
}

void Console::clear() {
  if (width_ == 0 || shown_.empty()) return;
  std::fputs("\r\033[K", stream_);
  std::fflush(stream_);
  shown_.clear();
}

int terminal_width(std::FILE* stream) {
  if (::isatty(::fileno(stream)) == 0) return 0;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view{terminal} == "dumb") return 0;
  winsize size{};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : usual_width;
}

}  // namespace trainyard::cli
