#include "worker/launcher/peer_spoke.hpp"

#include <fmt/format.h>

#include <utility>

#include "api/contract.hpp"
#include "common/backoff.hpp"
#include "worker/rank/waiting_text.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto connect_deadline = 5s;  // Includes the look-up of the name. The kernel's own deadline is two minutes.
constexpr Backoff retry_backoff{.initial = 50ms, .max = 2'000ms, .factor = 1.6, .jitter_share = 0.0};

}  // namespace

PeerSpoke::PeerSpoke(const PeerSettings& settings, std::string hub, Instant now)
    : settings_{settings},
      hub_{std::move(hub)},
      start_{now},
      looked_{now},
      heard_{now},
      beat_{now},
      retry_at_{now},
      tried_at_{now},
      own_failure_at_{now} {}

void PeerSpoke::on_open(Instant now) {
  state_ = State::greeting;
  heard_ = now;
  actions_.emplace_back(Send{settings_.self});
}

void PeerSpoke::on_message(const PeerMessage& message, Instant now) {
  heard_ = now;
  if (std::holds_alternative<Welcome>(message)) {
    state_ = State::joined;
    // Reported also after this launcher has given up waiting: else the others would only see that it is gone.
    if (own_failure_) actions_.emplace_back(Send{FailureReport{*own_failure_}});
  }
  if (const auto* refusal = std::get_if<Refusal>(&message)) on_refusal(*refusal, now);
  if (const auto* beat = std::get_if<PeerBeat>(&message)) missing_ = beat->missing;
  if (const auto* report = std::get_if<FailureReport>(&message)) set_verdict(report->failure);
  if (std::holds_alternative<Done>(message)) state_ = State::left;
}

void PeerSpoke::on_refusal(const Refusal& refusal, Instant now) {
  const Hello& self = settings_.self;
  actions_.emplace_back(Close{});
  if (refusal.job_uid == self.job_uid && refusal.attempt == self.attempt) {
    state_ = State::left;
    return set_verdict({.culprit = {},
                        .exit_code = contract::exit_do_not_restart,
                        .reason = "WrongGroup",
                        .message = fmt::format("rank 0's launcher at {} refused this one: {}", hub_, refusal.message)});
  }
  if (refusal.job_uid == self.job_uid && refusal.attempt > self.attempt) {
    state_ = State::left;
    return set_verdict({.culprit = {},
                        .exit_code = contract::exit_fenced,
                        .reason = "Superseded",
                        .message = fmt::format("this is attempt {}, but attempt {} of the same job is running at {}",
                                               self.attempt, refusal.attempt, hub_)});
  }
  // The hub is of an earlier attempt that is about to end, or of another job on this port: later tries may find the
  // right one.
  rest(fmt::format("refused, because another group is still there: {}", refusal.message), now);
}

void PeerSpoke::on_close(const std::string& why, Instant now) {
  if (state_ == State::left) return;
  if (state_ != State::joined) return rest(why, now);
  state_ = State::left;
  set_verdict({.culprit = 0,
               .exit_code = contract::exit_peer_lost,
               .reason = "PeerLost",
               .message = fmt::format("rank 0 is lost: the connection to its launcher at {} ended without a word ({})",
                                      hub_, why)});
}

void PeerSpoke::on_time(Instant now) {
  // This process slept itself, so that it cannot judge the hub's silence, which is measured from now on.
  if (now - looked_ > settings_.silence_deadline / 2) heard_ = now;
  looked_ = now;
  const bool is_connected = state_ == State::greeting || state_ == State::joined;
  if (is_connected && now - heard_ >= settings_.silence_deadline) {
    actions_.emplace_back(Close{});
    const std::string silence = fmt::format("nothing was heard from its launcher at {} for {}", hub_,
                                            rank::seconds_text(settings_.silence_deadline));
    if (state_ == State::greeting) {
      rest("no answer to the greeting", now);
    } else {
      state_ = State::left;
      set_verdict({.culprit = 0,
                   .exit_code = contract::exit_peer_lost,
                   .reason = "PeerLost",
                   .message = "rank 0 is lost: " + silence});
    }
  }
  if (state_ == State::connecting && now - tried_at_ >= connect_deadline) {
    // The address may be that of a deleted pod: the next try looks the name up again.
    actions_.emplace_back(Close{});
    rest(fmt::format("no answer within {}", rank::seconds_text(connect_deadline)), now);
  }
  if (state_ == State::resting && now >= retry_at_) {
    state_ = State::connecting;
    tried_at_ = now;
    actions_.emplace_back(Connect{});
  }
  if (state_ == State::joined && now - beat_ >= settings_.beat_interval) {
    beat_ = now;
    actions_.emplace_back(Send{PeerBeat{.missing = {}, .long_waits = long_waits_}});
  }
  // The hub cannot give a verdict when it is itself the missing peer, or fails together with this launcher.
  if (own_failure_ && now - own_failure_at_ >= settings_.verdict_deadline) set_verdict(*own_failure_);
  // Once this launcher has joined, only the hub keeps the deadline: a launcher that gave up by its own clock would be
  // taken for the culprit.
  const bool is_waiting_for_hub = state_ != State::left && state_ != State::joined;
  if (is_waiting_for_hub && now - start_ >= settings_.rendezvous_deadline) {
    set_verdict(rendezvous_failure(waiting_for(now)));
  }
}

void PeerSpoke::rest(std::string why, Instant now) {
  state_ = State::resting;
  last_trouble_ = std::move(why);
  retry_at_ = now + backoff_delay(retry_backoff, ++failures_, 0.5);
}

std::vector<PeerSpoke::Action> PeerSpoke::take_actions() {
  return std::exchange(actions_, {});
}

void PeerSpoke::report_failure(const GroupFailure& failure, Instant now) {
  if (own_failure_ || verdict_) return;
  own_failure_ = failure;
  own_failure_at_ = now;
  if (state_ == State::joined) actions_.emplace_back(Send{FailureReport{failure}});
  if (state_ == State::left) set_verdict(failure);
}

void PeerSpoke::report_done(Instant /*now*/) {
  if (state_ == State::joined || state_ == State::greeting) actions_.emplace_back(Send{Done{}});
  state_ = State::left;
}

void PeerSpoke::report_long_waits(std::vector<LongWait> waits, Instant /*now*/) {
  long_waits_ = std::move(waits);
}

void PeerSpoke::set_verdict(GroupFailure failure) {
  if (!verdict_) verdict_ = std::move(failure);
}

std::string PeerSpoke::waiting_for(Instant now) const {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - start_);
  if (state_ == State::left) return "";
  if (missing_) return missing_->empty() ? "" : rank::missing_ranks_text(*missing_, settings_.self.world_size, waited);
  const std::string trouble = last_trouble_.empty() ? "" : ": " + last_trouble_;
  return fmt::format("rank 0's launcher at {} ({}){}", hub_, rank::seconds_text(waited), trouble);
}

}  // namespace trainyard::launcher
