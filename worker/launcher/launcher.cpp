#include "worker/launcher/launcher.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <csignal>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/launcher/oom_counter.hpp"
#include "worker/launcher/peer_link.hpp"
#include "worker/launcher/poll_set.hpp"
#include "worker/launcher/process.hpp"
#include "worker/launcher/rank_process.hpp"
#include "worker/launcher/status_server.hpp"
#include "worker/rank/end_report.hpp"
#include "worker/rank/tcp.hpp"
#include "worker/rank/waiting_text.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto look_interval = 100ms;      // Deadlines are kept to this precision.
constexpr auto farewell_to_peers = 300ms;  // For all peers to read the last messages.

FileDescriptor block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&signals, signal);
  // Called before any thread starts, so that all threads inherit the mask.
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return FileDescriptor{signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
}

rank::RankEnd end_of_error(const Error& error) {
  const bool may_help_later = error.kind == ErrorKind::already_exists || error.kind == ErrorKind::io;
  return {.exit_code = may_help_later ? contract::exit_rendezvous : contract::exit_do_not_restart,
          .reason = error.kind == ErrorKind::already_exists ? "PortInUse" : "CannotStart",
          .message = error.message,
          .culprit = {}};
}

class Launcher {
 public:
  explicit Launcher(const Options& options) : options_{options}, supervisor_{options.ranks, now()} {}

  rank::RankEnd run() {
    signals_ = block_signals();
    // Orphans of our ranks become our children, also where we are not PID 1, so that we can reap them.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (auto started = start_all(); !started) {
      kill_all();
      return end_of_error(started.error());
    }
    while (true) {
      poll_once();
      if (auto end = supervisor_.end(); end && may_leave(*end)) return finish(std::move(*end));
    }
  }

  [[nodiscard]] std::int64_t culprit_or_first_rank() const { return supervisor_.culprit_or_first_rank(); }
  /// The last report of the first rank, with the last request for a checkpoint, even if the rank has not answered it.
  [[nodiscard]] std::optional<rank::RankProgress> progress() const {
    auto progress = supervisor_.progress(0);
    if (progress && status_) progress->checkpoint_request = status_->request_record();
    return progress;
  }

 private:
  static Instant now() { return SystemClock{}.instant(); }

  Result<void> start_all() {
    link_ = TRY(open_peer_link(options_.group, options_.peers, now()));
    TRY(start_status_server());
    TRY(start_store());
    oom_kills_ = read_oom_kills();
    for (std::int64_t i = 0; i < options_.ranks.rank_count; ++i) {
      auto rank = TRY(RankProcess::start(options_, i));
      ranks_.push_back(std::move(rank));
      logging::info("rank started", {{"rank", options_.ranks.first_rank + i}, {"pid", ranks_.back().pid()}});
    }
    return {};
  }

  [[nodiscard]] rank::Reach reach() const { return rank::reach_of(options_.group.master_address); }

  Result<void> start_status_server() {
    if (!options_.group.status_port) return {};
    status_ =
        TRY(StatusServer::start(options_.group, reach(), *options_.group.status_port, options_.checkpoint_requests,
                                {.rank = options_.ranks.first_rank, .progress = {}, .waiting_for = {}}));
    return {};
  }

  /// The rendezvous store is a process of its own, so that a stopped or dead rank 0 cannot block the other ranks'
  /// look-ups.
  Result<void> start_store() {
    if (options_.ranks.first_rank != 0 || options_.group.world_size == 1) return {};
    auto listener =
        TRY(rank::listen_on(reach(), options_.group.store_port, "the rendezvous store (TRAINYARD_STORE_PORT)"));
    auto pid = start({.path = options_.rendezvous_store_program,
                      .arguments = {std::to_string(listener.get())},
                      .environment = current_environment(),
                      .inherited_file = listener.get()});
    if (!pid) return fail("starting the rendezvous store", pid.error());
    store_pid_ = *pid;
    return {};
  }

  void poll_once() {
    PollSet files;
    files.add(signals_.get(), POLLIN);
    for (const RankProcess& rank : ranks_) {
      if (rank.file() >= 0) files.add(rank.file(), POLLIN);
    }
    link_->add_to(files);
    files.wait(look_interval);

    const Instant time = now();
    receive_from_ranks(time);
    drain_signals(time);
    link_->run(files, time);
    supervisor_.on_time(time);
    link_->group().report_long_waits(supervisor_.long_waits(time), time);
    act(time);
    // Sends at once what act() reported, instead of in the next round.
    link_->run(PollSet{}, time);
    show_progress(time);
    forward_checkpoint_request();
  }

  void receive_from_ranks(Instant time) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      for (const rank::RankMessage& message : ranks_[i].receive())
        supervisor_.on_message(static_cast<std::int64_t>(i), message, time);
    }
  }

  void drain_signals(Instant time) {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;  // One SIGCHLD can mean several ends: all are handled below.
      if (signal == SIGTERM || signal == SIGINT) {
        logging::info("asked to stop", {{"rank", options_.ranks.first_rank}, {"signal", signal}});
        is_stop_asked_ = true;
        supervisor_.on_stop(time);
        continue;
      }
      for (const RankProcess& rank : ranks_) rank.send_signal(signal);
    }
    while (const auto pid = ended_child()) on_exit(*pid, time);
  }

  /// The pid of a child that has ended. The child is not reaped yet, so that no other process has that pid.
  static std::optional<pid_t> ended_child() {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return std::nullopt;
    return info.si_pid;
  }

  void on_exit(pid_t pid, Instant time) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].pid() == pid && !ranks_[i].is_reaped()) return on_rank_exit(i, time);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (pid != store_pid_) return;  // An orphan of a rank.
    store_pid_ = 0;
    on_store_exit(death_of(status), time);
  }

  void on_rank_exit(std::size_t index, Instant time) {
    RankExit exit = ranks_[index].reap();
    const auto local_rank = static_cast<std::int64_t>(index);
    for (const rank::RankMessage& message : exit.last_words) supervisor_.on_message(local_rank, message, time);
    if (exit.death.signal == SIGKILL) {
      const std::int64_t kills = read_oom_kills();
      exit.death.is_out_of_memory = kills > std::exchange(oom_kills_, kills);
    }
    logging::info("rank ended",
                  {{"rank", options_.ranks.first_rank + local_rank}, {"exitCode", exit_code_of(exit.death)}});
    supervisor_.on_death(local_rank, exit.death, time);
  }

  void on_store_exit(const Death& death, Instant time) {
    // A rank before its first step may still need the rendezvous store.
    const auto& progress = supervisor_.progress(0);
    const bool is_forming = !progress || (!progress->step && progress->phase != "Done");
    logging::warn("rendezvous store ended", {{"exitCode", exit_code_of(death)}});
    if (!is_forming) return;
    link_->group().report_failure(
        {.culprit = {},
         .exit_code = contract::exit_rendezvous,
         .reason = "StoreLost",
         .message =
             fmt::format("the rendezvous store ended with code {} before the group had formed; rank 0's log says why",
                         exit_code_of(death))},
        time);
  }

  void act(Instant time) {
    PeerGroup& group = link_->group();
    if (supervisor_.own_failure() && !is_failure_reported_) {
      is_failure_reported_ = true;
      group.report_failure(*supervisor_.own_failure(), time);
    }
    if (group.verdict() && !is_verdict_handled_) {
      is_verdict_handled_ = true;
      const GroupFailure& verdict = *group.verdict();
      const std::string culprit = verdict.culprit ? std::to_string(*verdict.culprit) : "none";
      logging::error("group failed", {{"culprit", culprit},
                                      {"reason", verdict.reason},
                                      {"exitCode", verdict.exit_code},
                                      {"error", verdict.message}});
      supervisor_.on_verdict(verdict, time);
    }
    for (const auto& action : supervisor_.take_actions()) {
      if (const auto* signal = std::get_if<Supervisor::SendSignal>(&action)) {
        ranks_.at(static_cast<std::size_t>(signal->local_rank)).send_signal(signal->signal);
      }
      if (const auto* tell = std::get_if<Supervisor::TellRank>(&action)) {
        ranks_.at(static_cast<std::size_t>(tell->local_rank)).tell(tell->end);
      }
    }
  }

  void show_progress(Instant time) {
    const std::string waiting_for = link_->group().waiting_for(time);
    if (status_) {
      // Most groups form within first_wait_log_after, and such a short wait is not reported.
      status_->update({.rank = options_.ranks.first_rank,
                       .progress = supervisor_.progress(0),
                       .waiting_for = time < first_wait_log_ ? std::string{} : waiting_for},
                      supervisor_.is_training_over(0));
    }
    if (is_verdict_handled_) return;
    if (waiting_for.empty()) {
      if (!is_together_ && options_.ranks.rank_count < options_.group.world_size) {
        logging::info("the group is together",
                      {{"rank", options_.ranks.first_rank}, {"worldSize", options_.group.world_size}});
      }
      is_together_ = true;
    } else if (time >= next_wait_log_) {
      next_wait_log_ = time + rank::wait_log_interval;
      logging::info("waiting for the group", {{"rank", options_.ranks.first_rank}, {"waitingFor", waiting_for}});
    }
  }

  void forward_checkpoint_request() {
    if (!status_) return;
    const auto request = status_->take_checkpoint_request();
    if (!request) return;
    logging::info("checkpoint asked for", {{"id", request->id}, {"then", to_string(request->then)}});
    ranks_.front().tell(*request);
  }

  /// A rank may finish before its peers have connected. The launcher stays until they have, because a peer that
  /// connects later would wait in vain.
  bool may_leave(const rank::RankEnd& end) {
    return end.exit_code != contract::exit_success || is_stop_asked_ || link_->group().verdict() || is_together_;
  }

  rank::RankEnd finish(rank::RankEnd end) {
    if (!link_->group().verdict()) link_->group().report_done(now());
    // Peers that are connecting now still get the verdict. A peer that comes later is ended by whatever restarts the
    // group.
    const bool is_hub = options_.ranks.first_rank == 0;
    if (link_->group().verdict() && is_hub)
      run_link(options_.peers.farewell_to_late_peers, [this] { return link_->group().waiting_for(now()).empty(); });
    link_->run(PollSet{}, now());
    link_->finish();
    run_link(farewell_to_peers, [this] { return link_->is_finished(); });
    kill_all();
    return end;
  }

  template <typename IsDone>
  void run_link(std::chrono::milliseconds time, const IsDone& is_done) {
    const Instant deadline = now() + time;
    while (!is_done() && now() < deadline) {
      PollSet files;
      link_->add_to(files);
      files.wait(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now()) + 1ms);
      link_->run(files, now());
    }
  }

  void kill_all() {
    for (const RankProcess& rank : ranks_) rank.send_signal(SIGKILL);
    if (store_pid_ > 0) kill(store_pid_, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }

  const Options& options_;
  FileDescriptor signals_;
  Supervisor supervisor_;
  std::unique_ptr<PeerLink> link_;
  std::vector<RankProcess> ranks_;
  pid_t store_pid_ = 0;
  std::int64_t oom_kills_ = 0;
  bool is_failure_reported_ = false;
  bool is_verdict_handled_ = false;
  bool is_together_ = false;
  bool is_stop_asked_ = false;
  const Instant first_wait_log_ = now() + rank::first_wait_log_after;
  Instant next_wait_log_ = first_wait_log_;
  std::unique_ptr<StatusServer> status_;
};

}  // namespace

void report_end(const rank::RankEnd& end, const std::optional<std::int64_t>& rank,
                const std::optional<rank::RankProgress>& progress, const rank::Environment& environment) {
  if (end.exit_code == contract::exit_success) {
    logging::info("all ranks of this launcher completed");
  } else if (end.exit_code == contract::exit_preempted) {
    logging::info("all ranks of this launcher stopped as asked", {{"reason", end.message}});
  } else {
    logging::error("ended", {{"reason", end.reason}, {"exitCode", end.exit_code}, {"error", end.message}});
  }
  if (auto written = rank::write_termination_message(environment, rank::make_termination_message(end, rank, progress));
      !written) {
    logging::warn("termination message not written", {{"error", written.error().message}});
  }
  if (auto written = rank::write_error_file(environment, end, SystemClock{}.now()); !written)
    logging::warn("torchrun's error file not written", {{"error", written.error().message}});
}

void launch(const Options& options, const rank::Environment& environment) {
  Launcher launcher{options};
  const rank::RankEnd end = launcher.run();
  report_end(end, launcher.culprit_or_first_rank(), launcher.progress(), environment);
  // Skips the destructors: a look-up may block in the system's resolver for longer than the pod's grace period.
  _exit(end.exit_code);
}

}  // namespace trainyard::launcher
