#include "worker/launcher/supervisor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "api/contract.hpp"
#include "worker/rank/waiting_text.hpp"

namespace trainyard::launcher {
namespace {

/// A rank that waits in wait_watched() beats much more often. A wait that was told earlier may be over.
constexpr auto long_wait_lifetime = std::chrono::seconds{5};

bool is_meant(const Death& death) {
  return death.signal == 0 &&
         (death.exit_code == contract::exit_success || death.exit_code == contract::exit_preempted);
}

bool is_peer_lost(const Death& death) {
  return death.signal == 0 && death.exit_code == contract::exit_peer_lost;
}

/// True in a rank's phases in which it makes steps. The rank's other phases last as long as they have data to move, and
/// have deadlines of their own.
bool is_stepping(const std::optional<rank::RankProgress>& progress) {
  return !progress || progress->phase == "Training" || progress->phase == "Validating";
}

std::string last_seen_text(const std::optional<rank::RankProgress>& progress) {
  if (!progress) return "before its first report";
  if (!progress->step) return fmt::format("in phase {}", progress->phase);
  return fmt::format("in phase {}, after step {}", progress->phase, *progress->step);
}

}  // namespace

Supervisor::Supervisor(const SupervisorSettings& settings, Instant now)
    : settings_{settings},
      ranks_(static_cast<std::size_t>(settings.rank_count)),  // Braces would make a list.
      looked_{now} {}

void Supervisor::on_message(std::int64_t local_rank, const rank::RankMessage& message, Instant now) {
  Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  rank.alive = now;
  if (const auto* beat = std::get_if<rank::Beat>(&message)) {
    rank.beat = now;
    rank.long_wait = beat->long_wait;
    rank.long_wait_at = now;
  }
  if (const auto* progress = std::get_if<rank::RankProgress>(&message)) {
    rank.beat = now;
    rank.progress = *progress;
  }
  if (const auto* end = std::get_if<rank::RankEnd>(&message)) rank.said = *end;
}

void Supervisor::on_death(std::int64_t local_rank, const Death& death, Instant now) {
  Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  rank.death = death;
  // After a verdict without a stop, this launcher itself ended the rank: an exit as if asked to stop is then no orderly
  // end.
  const bool is_our_doing = verdict_ && !stop_asked_ && death.exit_code == contract::exit_preempted;
  const bool is_early = has_left_early(rank);
  rank.has_ended_as_meant = is_meant(death) && !is_our_doing && !is_early;
  if (is_meant(death) && !is_early) return;
  if (is_peer_lost(death)) {
    if (!lost_a_peer_) lost_a_peer_ = now;
    return;
  }
  // Once the group is broken, our ranks end because of that: their deaths are not causes.
  if (!verdict_) set_own_failure(*failure_of_death(local_rank));
}

bool Supervisor::has_left_early(const Rank& rank) {
  const bool uses_link = rank.alive.has_value();  // A program that does not use the link reports only its exit code.
  const bool is_done = rank.progress && rank.progress->phase == "Done";
  return uses_link && !rank.said && !is_done && rank.death && *rank.death == Death{};
}

std::optional<GroupFailure> Supervisor::failure_of_death(std::int64_t local_rank) const {
  const Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  if (!rank.death) return std::nullopt;
  if (has_left_early(rank)) {
    return GroupFailure{
        .culprit = global(local_rank),
        .exit_code = contract::exit_failure,
        .reason = "EndedEarly",
        .message = fmt::format("rank {} ended with exit code 0, but had not said that its training is complete; last "
                               "seen {}: look for a call of exit() in its program",
                               global(local_rank), last_seen_text(rank.progress))};
  }
  GroupFailure failure = failure_of(global(local_rank), *rank.death, rank.said);
  constexpr int terminated = 128 + SIGTERM;
  if (is_stop_urgent_) {
    failure.exit_code = terminated;
    failure.reason = "Terminated";
    failure.message = fmt::format("rank {} was asked to stop twice, and was killed", global(local_rank));
  } else if (has_grace_ended_) {
    failure.exit_code = terminated;
    failure.reason = "GraceExpired";
    failure.message = fmt::format("rank {} was asked to stop, had not ended {} later, and was killed",
                                  global(local_rank), rank::seconds_text(settings_.stop_deadline));
  } else if (stop_asked_ && rank.death->signal == SIGTERM) {
    failure.reason = "Terminated";
    failure.message = fmt::format("rank {} was asked to stop and ended without saving (SIGTERM)", global(local_rank));
  }
  return failure;
}

void Supervisor::on_stop(Instant now) {
  if (stop_asked_) {
    is_stop_urgent_ = true;
    kill_running();
    return;
  }
  stop_asked_ = now;
  for (std::int64_t i = 0; i < settings_.rank_count; ++i) {
    if (!ranks_[static_cast<std::size_t>(i)].death) actions_.emplace_back(SendSignal{i, SIGTERM});
  }
}

void Supervisor::on_verdict(const GroupFailure& verdict, Instant now) {
  if (verdict_) return;
  verdict_ = verdict;
  kill_at_ = now + settings_.farewell;
  for (std::int64_t i = 0; i < settings_.rank_count; ++i) {
    const Rank& rank = ranks_[static_cast<std::size_t>(i)];
    if (rank.death) continue;
    // A program that has never used its link would not read the message.
    if (rank.alive) {
      actions_.emplace_back(TellRank{i, end_of_others(verdict)});
    } else {
      actions_.emplace_back(SendSignal{i, SIGTERM});
    }
  }
}

void Supervisor::on_time(Instant now) {
  // This process slept itself (stopped, starved or suspended), so that it cannot judge the ranks: their silence is
  // measured from now on, and the time slept is taken off their time without progress.
  const auto slept = now - looked_;
  if (slept > settings_.alive_deadline / 2) {
    for (Rank& rank : ranks_) {
      if (rank.alive) rank.alive = now;
      if (rank.beat) rank.beat = std::min(now, *rank.beat + slept);
    }
  }
  looked_ = now;
  for (std::int64_t i = 0; i < settings_.rank_count; ++i) check_for_hang(i, now);
  if (lost_a_peer_ && !verdict_ && now - *lost_a_peer_ >= settings_.cause_deadline) {
    const auto lost = std::find_if(ranks_.begin(), ranks_.end(),
                                   [](const Rank& rank) { return rank.death && is_peer_lost(*rank.death); });
    const std::string why = lost->said ? lost->said->message : "the connection to another rank was lost";
    set_own_failure({.culprit = lost->said ? lost->said->culprit : std::nullopt,
                     .exit_code = contract::exit_peer_lost,
                     .reason = "PeerLost",
                     .message = fmt::format("rank {} lost a peer, but no launcher reported a failure: {}",
                                            global(lost - ranks_.begin()), why)});
  }
  if (stop_asked_ && now - *stop_asked_ >= settings_.stop_deadline && !has_grace_ended_) {
    has_grace_ended_ = true;
    kill_running();
  }
  if (kill_at_ && now >= *kill_at_) {
    kill_at_.reset();
    kill_running();
  }
}

void Supervisor::check_for_hang(std::int64_t local_rank, Instant now) {
  const Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  if (rank.death || verdict_ || own_failure_) return;
  std::string message;
  if (rank.alive && now - *rank.alive >= settings_.alive_deadline) {
    message =
        fmt::format("rank {} has not been heard from for {}: its process is stopped or gets no processor; last seen {}",
                    global(local_rank), rank::seconds_text(settings_.alive_deadline), last_seen_text(rank.progress));
  } else if (is_stepping(rank.progress) && rank.beat && now - *rank.beat >= settings_.hang_deadline) {
    message = fmt::format("rank {} made no progress for {}; last seen {}", global(local_rank),
                          rank::seconds_text(settings_.hang_deadline), last_seen_text(rank.progress));
  } else {
    return;
  }
  actions_.emplace_back(SendSignal{local_rank, SIGKILL});
  set_own_failure({.culprit = global(local_rank),
                   .exit_code = contract::exit_hang,
                   .reason = "Hang",
                   .message = std::move(message)});
}

void Supervisor::kill_running() {
  for (std::int64_t i = 0; i < settings_.rank_count; ++i) {
    if (!ranks_[static_cast<std::size_t>(i)].death) actions_.emplace_back(SendSignal{i, SIGKILL});
  }
}

void Supervisor::set_own_failure(GroupFailure failure) {
  if (!own_failure_) own_failure_ = std::move(failure);
}

std::vector<Supervisor::Action> Supervisor::take_actions() {
  return std::exchange(actions_, {});
}

bool Supervisor::have_all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.death.has_value(); });
}

bool Supervisor::is_training_over(std::int64_t local_rank) const {
  const Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  const bool is_done = rank.progress && rank.progress->phase == "Done";
  return is_done || rank.said || rank.death || verdict_;
}

std::optional<rank::RankEnd> Supervisor::end() const {
  if (!have_all_ended()) return std::nullopt;
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.has_ended_as_meant; })) {
    const auto preempted = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
      return rank.death->exit_code == contract::exit_preempted;
    });
    const Rank& reported = preempted == ranks_.end() ? ranks_.front() : *preempted;
    if (reported.said) return reported.said;
    if (preempted != ranks_.end()) {
      return rank::RankEnd{
          .exit_code = contract::exit_preempted, .reason = "Preempted", .message = "stopped as asked", .culprit = {}};
    }
    return rank::RankEnd{.exit_code = contract::exit_success, .reason = "Completed", .message = "", .culprit = {}};
  }
  if (!verdict_) return std::nullopt;
  const bool is_ours = verdict_->culprit && *verdict_->culprit >= settings_.first_rank &&
                       *verdict_->culprit < settings_.first_rank + settings_.rank_count;
  if (!is_ours) return end_of_others(*verdict_);
  return rank::RankEnd{
      .exit_code = verdict_->exit_code, .reason = verdict_->reason, .message = verdict_->message, .culprit = {}};
}

std::int64_t Supervisor::culprit_or_first_rank() const {
  const bool is_ours = verdict_ && verdict_->culprit && *verdict_->culprit >= settings_.first_rank &&
                       *verdict_->culprit < settings_.first_rank + settings_.rank_count;
  return is_ours ? *verdict_->culprit : settings_.first_rank;
}

const std::optional<rank::RankProgress>& Supervisor::progress(std::int64_t local_rank) const {
  return ranks_.at(static_cast<std::size_t>(local_rank)).progress;
}

std::vector<LongWait> Supervisor::long_waits(Instant now) const {
  std::vector<LongWait> waits;
  for (std::int64_t i = 0; i < settings_.rank_count; ++i) {
    const Rank& rank = ranks_[static_cast<std::size_t>(i)];
    const bool waits_now = !rank.death && !rank.long_wait.empty() && now - rank.long_wait_at < long_wait_lifetime;
    if (waits_now) add_rank(waits, global(i), rank.long_wait);
  }
  return waits;
}

}  // namespace trainyard::launcher
