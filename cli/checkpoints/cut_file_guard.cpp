#include "cli/checkpoints/cut_file_guard.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "cli/text/table.hpp"

namespace trainyard::cli {
namespace {

constexpr int exit_failed = 1;

// Global, since nothing else reaches a signal handler.
std::string sentence;
struct sigaction handled_before;

void tell_and_end(int /*signal*/) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, sentence.data(), sentence.size());
  ::_exit(exit_failed);
}

}  // namespace

CutFileGuard::CutFileGuard(const std::string& path) {
  sentence = fmt::format("error: {} was cut off while it was read, or its disk failed: nothing was imported\n",
                         printable(path));
  struct sigaction action {};
  action.sa_handler = tell_and_end;
  ::sigaction(SIGBUS, &action, &handled_before);
}

CutFileGuard::~CutFileGuard() {
  ::sigaction(SIGBUS, &handled_before, nullptr);
}

}  // namespace trainyard::cli
