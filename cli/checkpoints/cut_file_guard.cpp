#include "cli/checkpoints/cut_file_guard.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "cli/text/output.hpp"
#include "common/exit_codes.hpp"

namespace trainyard::cli {
namespace {

// Global, since a signal handler gets no arguments of ours.
std::string message;
struct sigaction handled_before;

void print_and_exit(int /*signal*/) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(exit_failure);
}

}  // namespace

CutFileGuard::CutFileGuard(const std::string& path) {
  message = fmt::format("error: {} was truncated while it was read, or its disk failed; nothing was imported\n",
                        printable(path));
  struct sigaction action {};
  action.sa_handler = print_and_exit;
  ::sigaction(SIGBUS, &action, &handled_before);
}

CutFileGuard::~CutFileGuard() {
  ::sigaction(SIGBUS, &handled_before, nullptr);
}

}  // namespace trainyard::cli
