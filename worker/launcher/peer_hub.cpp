#include "worker/launcher/peer_hub.hpp"

#include <fmt/format.h>

#include "api/contract.hpp"
#include "worker/rank/waiting_text.hpp"

namespace trainyard::launcher {
namespace {

// "rank 3", or "ranks 4 to 7" for a pod of several ranks.
std::string member_text(const Hello& hello) {
  if (hello.rank_count == 1) return fmt::format("rank {}", hello.first_rank);
  return fmt::format("ranks {} to {}", hello.first_rank, hello.first_rank + hello.rank_count - 1);
}

// "job fashion-mnist (uid), attempt 2"
std::string group_text(const Hello& hello) {
  const std::string uid = hello.job_uid.empty() ? "" : fmt::format(" ({})", hello.job_uid);
  return fmt::format("job {}{}, attempt {}", hello.job, uid, hello.attempt);
}

}  // namespace

PeerHub::PeerHub(const PeerSettings& settings, Instant now)
    : settings_{settings}, start_{now}, looked_{now}, beat_{now} {}

void PeerHub::on_open(ConnectionId connection, std::string address, Instant now) {
  connections_[connection] = {.address = std::move(address), .heard = now, .hello = {}};
}

void PeerHub::on_message(ConnectionId id, const PeerMessage& message, Instant now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  connection.heard = now;
  if (const auto* hello = std::get_if<Hello>(&message)) return greet(id, connection, *hello);
  if (!connection.hello) return refuse(id, "the first message must be a hello");
  if (const auto* report = std::get_if<FailureReport>(&message)) report_failure(report->failure, now);
  if (const auto* beat = std::get_if<PeerBeat>(&message)) connection.long_waits = beat->long_waits;
  if (std::holds_alternative<Done>(message)) connection.is_done = true;
}

void PeerHub::greet(ConnectionId id, Connection& connection, const Hello& hello) {
  if (auto objection = objection_to(hello)) return refuse(id, std::move(*objection));
  connection.hello = hello;
  arrived_[hello.first_rank] = hello;
  actions_.emplace_back(Send{id, Welcome{}});
  actions_.emplace_back(Send{id, PeerBeat{missing_ranks()}});
  if (verdict_) actions_.emplace_back(Send{id, FailureReport{*verdict_}});
  if (!missing_ranks().empty()) return;
  for (const auto& [other, state] : connections_) {
    // The last launcher has connected. The others learn it now instead of with the next beat.
    if (other != id && state.hello) actions_.emplace_back(Send{other, PeerBeat{}});
  }
}

std::optional<std::string> PeerHub::objection_to(const Hello& hello) const {
  const Hello& self = settings_.self;
  if (hello.job_uid != self.job_uid || hello.attempt != self.attempt) {
    return fmt::format("{} of {} has come to {}", member_text(hello), group_text(hello), group_text(self));
  }
  if (hello.world_size != self.world_size || hello.rank_count != self.rank_count) {
    return fmt::format("{} has WORLD_SIZE {} and {} ranks in its pod, but rank 0 has {} and {}", member_text(hello),
                       hello.world_size, hello.rank_count, self.world_size, self.rank_count);
  }
  if (hello.first_rank < self.rank_count || hello.first_rank >= self.world_size ||
      hello.first_rank % self.rank_count != 0) {
    return fmt::format("{} cannot be in a group of {}", member_text(hello), self.world_size);
  }
  if (arrived_.contains(hello.first_rank)) {
    return fmt::format("{} has connected already: give each process its own RANK", member_text(hello));
  }
  return std::nullopt;
}

void PeerHub::refuse(ConnectionId id, std::string message) {
  const Hello& self = settings_.self;
  actions_.emplace_back(
      Send{id, Refusal{.job_uid = self.job_uid, .attempt = self.attempt, .message = std::move(message)}});
  actions_.emplace_back(Close{id});
  connections_.erase(id);
}

void PeerHub::on_close(ConnectionId id, const std::string& why, Instant now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Connection closed = found->second;
  connections_.erase(found);
  if (!closed.hello || closed.is_done || is_done_) return;
  report_failure({.culprit = closed.hello->first_rank,
                  .exit_code = contract::exit_peer_lost,
                  .reason = "PeerLost",
                  .message = fmt::format("{} is lost: the connection to its launcher at {} ended without a word ({})",
                                         member_text(*closed.hello), closed.address, why)},
                 now);
}

void PeerHub::on_time(Instant now) {
  // This process slept itself, so that it cannot judge the others' silence, which is measured from now on.
  if (now - looked_ > settings_.silence_deadline / 2) {
    for (auto& [id, connection] : connections_) connection.heard = now;
  }
  looked_ = now;
  std::vector<ConnectionId> silent;
  for (const auto& [id, connection] : connections_) {
    if (now - connection.heard >= settings_.silence_deadline) silent.push_back(id);
  }
  for (const ConnectionId id : silent) {
    const Connection connection = connections_.at(id);
    connections_.erase(id);
    actions_.emplace_back(Close{id});
    if (!connection.hello || connection.is_done) continue;
    report_failure({.culprit = connection.hello->first_rank,
                    .exit_code = contract::exit_peer_lost,
                    .reason = "PeerLost",
                    .message = fmt::format("{} is lost: nothing was heard from its launcher at {} for {}",
                                           member_text(*connection.hello), connection.address,
                                           rank::seconds_text(settings_.silence_deadline))},
                   now);
  }
  if (now - beat_ >= settings_.beat_interval) {
    beat_ = now;
    for (const auto& [id, connection] : connections_) {
      if (connection.hello) actions_.emplace_back(Send{id, PeerBeat{missing_ranks()}});
    }
  }
  check_for_mismatch(now);
  if (!verdict_ && !is_done_ && now - start_ >= settings_.rendezvous_deadline && !missing_ranks().empty()) {
    report_failure(rendezvous_failure(waiting_for(now)), now);
  }
}

void PeerHub::check_for_mismatch(Instant now) {
  std::vector<LongWait> waits = own_long_waits_;
  for (const auto& [id, connection] : connections_) {
    // The last words of a launcher that is silent now may be out of date.
    if (now - connection.heard >= settings_.mismatch_deadline) continue;
    waits.insert(waits.end(), connection.long_waits.begin(), connection.long_waits.end());
  }
  const auto failure =
      mismatch_watch_.look(mismatch_of(waits, settings_.self.world_size), now, settings_.mismatch_deadline);
  if (failure) report_failure(*failure, now);
}

std::vector<PeerHub::Action> PeerHub::take_actions() {
  return std::exchange(actions_, {});
}

void PeerHub::report_failure(const GroupFailure& failure, Instant /*now*/) {
  if (verdict_ || is_done_) return;
  verdict_ = failure;
  for (const auto& [id, connection] : connections_) {
    if (connection.hello) actions_.emplace_back(Send{id, FailureReport{failure}});
  }
}

void PeerHub::report_done(Instant /*now*/) {
  is_done_ = true;
  for (const auto& [id, connection] : connections_) {
    if (connection.hello) actions_.emplace_back(Send{id, Done{}});
  }
}

void PeerHub::report_long_waits(std::vector<LongWait> waits, Instant /*now*/) {
  own_long_waits_ = std::move(waits);
}

std::string PeerHub::waiting_for(Instant now) const {
  const auto missing = missing_ranks();
  if (missing.empty()) return "";
  return rank::missing_ranks_text(missing, settings_.self.world_size,
                                  std::chrono::duration_cast<std::chrono::milliseconds>(now - start_));
}

std::vector<std::int64_t> PeerHub::missing_ranks() const {
  std::vector<std::int64_t> missing;
  const Hello& self = settings_.self;
  for (std::int64_t rank = self.rank_count; rank < self.world_size; ++rank) {
    if (!arrived_.contains(rank / self.rank_count * self.rank_count)) missing.push_back(rank);
  }
  return missing;
}

}  // namespace trainyard::launcher
