#include "cli/stop_signals.hpp"

#include <signal.h>

#include <ctime>
#include <initializer_list>

namespace trainyard::cli {
namespace {

sigset_t watched_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // A signal that was ignored at our start (nohup) stays ignored: once blocked, it would become pending.
    // SIGINT is watched even so: shells start background programs with it ignored, and a script may send it on purpose.
    struct sigaction action {};
    const bool is_ignored = ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (is_ignored && number != SIGINT) continue;
    ::sigaddset(&signals, number);
  }
  return signals;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t signals = watched_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::jthread{[this, signals](const std::stop_token& stop) {
    // The wait has a limit, since nothing but a signal wakes this thread when it must stop.
    const timespec interval{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!stop.stop_requested()) {
      const int number = ::sigtimedwait(&signals, nullptr, &interval);
      if (number <= 0) continue;
      int none = 0;
      first_.compare_exchange_strong(none, number);
      ++count_;
    }
  }};
}

}  // namespace trainyard::cli
