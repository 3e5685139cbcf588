#include "worker/launcher/culprit.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <string_view>

#include "api/contract.hpp"

namespace trainyard::launcher {

rank::RankEnd end_of_others(const GroupFailure& failure) {
  if (!failure.culprit)
    return {.exit_code = failure.exit_code, .reason = failure.reason, .message = failure.message, .culprit = {}};
  rank::RankEnd end{.exit_code = contract::exit_peer_lost,
                    .reason = "PeerLost",
                    .message = failure.message,
                    .culprit = failure.culprit};
  // A culprit that only fell silent has no known exit code.
  if (failure.exit_code != contract::exit_peer_lost) end.culprit_exit_code = failure.exit_code;
  return end;
}

namespace {

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("signal {} (SIG{})", signal, name);
}

GroupFailure signal_failure(std::int64_t rank, const Death& death) {
  GroupFailure failure{.culprit = rank, .exit_code = exit_code_of(death), .reason = "Killed", .message = {}};
  if (death.is_out_of_memory) {
    failure.reason = "OOMKilled";
    failure.message = fmt::format(
        "rank {} was killed by the kernel because the container ran out of memory: give it more, or train with "
        "a smaller batch",
        rank);
    return failure;
  }
  switch (death.signal) {
    case SIGBUS:
      failure.reason = "Crashed";
      failure.message = fmt::format("rank {} crashed with {}: often /dev/shm or a mapped file's disk is full", rank,
                                    signal_text(death.signal));
      return failure;
    case SIGSEGV:
    case SIGABRT:
    case SIGILL:
    case SIGFPE:
      failure.reason = "Crashed";
      failure.message = fmt::format("rank {} crashed with {}; its log may say more", rank, signal_text(death.signal));
      return failure;
    default:
      failure.message = fmt::format("rank {} was killed by {}", rank, signal_text(death.signal));
      return failure;
  }
}

// True when the message begins with a rank, as "rank 3: ": ranks that agree on an error name the rank that met it.
bool names_a_rank(std::string_view message) {
  constexpr std::string_view beginning = "rank ";
  if (!message.starts_with(beginning)) return false;
  const std::size_t end = message.find_first_not_of("0123456789", beginning.size());
  return end != std::string_view::npos && end > beginning.size() && message.substr(end).starts_with(": ");
}

}  // namespace

Death death_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.exit_code = 0, .signal = WTERMSIG(wait_status)};
  return {.exit_code = WEXITSTATUS(wait_status)};
}

int exit_code_of(const Death& death) {
  return death.signal == 0 ? death.exit_code : 128 + death.signal;
}

GroupFailure failure_of(std::int64_t rank, const Death& death, const std::optional<rank::RankEnd>& said) {
  if (death.signal != 0) return signal_failure(rank, death);
  if (said && said->exit_code == death.exit_code) {
    return {.culprit = rank,
            .exit_code = death.exit_code,
            .reason = said->reason,
            .message = names_a_rank(said->message) ? said->message : fmt::format("rank {}: {}", rank, said->message)};
  }
  return {.culprit = rank,
          .exit_code = death.exit_code,
          .reason = "Error",
          .message = fmt::format("rank {} exited with code {}; its log says why", rank, death.exit_code)};
}

GroupFailure rendezvous_failure(const std::string& waiting_for) {
  return {.culprit = {},
          .exit_code = contract::exit_rendezvous,
          .reason = "Rendezvous",
          .message = "the group did not come together in time: waiting for " + waiting_for};
}

}  // namespace trainyard::launcher
