#include "worker/train/saver.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/log_fields.hpp"
#include "worker/train/save_policy.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;

/// How often the group's health is checked while a save is waited for. The save's end wakes the waiter at once.
constexpr auto look_interval = 20ms;

/// The value of a log field: how the state came to the host.
std::string_view staging_of(const checkpoint::SaveOutcome& outcome) {
  if (!outcome.is_copied_on_device) return "direct";
  return *outcome.is_copied_on_device ? "deviceCopy" : "pinnedBuffers";
}

}  // namespace

void CopiesLog::saved(std::int64_t step, const Times& times) {
  const auto outage = std::exchange(outage_, std::nullopt);
  if (!is_rank0_) return;
  if (outage) {
    logging::info(
        "local checkpoints are saved again",
        {{"step", step}, {"failedSaves", outage->failures()}, {"seconds", to_seconds(outage->duration(times.now))}});
  }
  logging::info("local checkpoint saved",
                {{"step", step}, {"seconds", times.seconds}, {"stallSeconds", times.stall_seconds}});
}

void CopiesLog::failed(std::int64_t step, const std::string& error, Instant now) {
  if (!outage_) outage_.emplace();
  if (!outage_->add_failure(now) || !is_rank0_) return;
  logging::warn("no local checkpoint: saving failed; training and the checkpoints of checkpoint.uri go on",
                {{"step", step},
                 {"error", error},
                 {"failedSaves", outage_->failures()},
                 {"seconds", to_seconds(outage_->duration(now))}});
}

void Saver::begin(const checkpoint::State& state, std::int64_t step, const Options& options) {
  const Instant start = clock_.instant();
  if (!options.save.is_copies_only) {
    requests_.begin_save();
    owed_.begun();
  }
  checkpointer_.begin_save(state, step, options.save);
  must_succeed_ = options.must_succeed;
  is_copies_only_ = options.save.is_copies_only;
  has_skipped_ = false;
  has_met_trouble_ = false;
  begun_step_ = step;
  stall_ = clock_.instant() - start;
}

void Saver::finish_staging() {
  if (!is_saving()) return;
  const Instant start = clock_.instant();
  checkpointer_.finish_staging();
  stall_ += clock_.instant() - start;
}

OrEnd<bool> Saver::poll_outcome() {
  const auto outcome = checkpointer_.take_outcome();
  if (!outcome) return false;
  return act_on(*outcome).map([] { return true; });
}

void Saver::watch() {
  const std::string trouble = is_copies_only_ ? std::string{} : checkpointer_.trouble();
  trouble_ = trouble.empty() ? "" : fmt::format("step {} is not saved yet: {}", begun_step_, trouble);
  if (trouble.empty() || std::exchange(has_met_trouble_, true) || !is_rank0_) return;
  logging::warn("the storage fails while a checkpoint is written: it is tried again, and training goes on",
                {{"step", begun_step_}, {"error", trouble}});
}

OrEnd<void> Saver::wait(const std::function<void()>& on_look) {
  const Instant start = clock_.instant();
  auto outcome = checkpointer_.take_outcome(look_interval);
  while (!outcome && checkpointer_.is_saving()) {
    if (auto failure = link_.group_failure()) return tl::unexpected(*failure);
    watch();
    on_look();
    outcome = checkpointer_.take_outcome(look_interval);
  }
  // The save may have ended between take_outcome() and is_saving().
  if (!outcome) outcome = checkpointer_.take_outcome();
  stall_ += clock_.instant() - start;
  return outcome ? act_on(*outcome) : OrEnd<void>{};
}

void Saver::skip(std::int64_t step) {
  if (std::exchange(has_skipped_, true) || !is_rank0_) return;
  logging::warn("no checkpoint at this step: the one before is still being written", {{"step", step}});
}

void Saver::end(std::int64_t step, const rank::RankEnd& ended) {
  std::optional<SavedState> state;
  if (last_ && last_->step == step) {
    state = {.step = step, .uri = last_->uri};
  } else if (resumed_ && resumed_->step == step) {
    state = resumed_;
  }
  requests_.end(state, ended.message);
}

OrEnd<void> Saver::act_on(const checkpoint::SaveOutcome& outcome) {
  trouble_.clear();
  if (has_skipped_ && has_met_trouble_) owed_.held_up();
  log_copies(outcome);
  if (outcome.is_copies_only && outcome.saved) return {};
  if (!outcome.saved) {
    const Error& error = outcome.saved.error();
    if (must_succeed_ || !may_go_on(error.kind)) {
      auto ended = lost(link_, Stage::save, error);
      // In a broken group the request stays unanswered, so that the next attempt can be asked again.
      if (ended.value().exit_code != contract::exit_peer_lost) requests_.failed(error.message);
      return ended;
    }
    requests_.failed(error.message);
    note_failure(outcome.step, error);
    return {};
  }
  if (!*outcome.saved) {
    if (is_rank0_) {
      logging::warn(fmt::format("no checkpoint: {}, and the last good state is kept", outcome.left_out),
                    {{"step", outcome.step}});
    }
    requests_.failed(fmt::format("{} after step {}: nothing was saved", outcome.left_out, outcome.step));
    return {};
  }
  const checkpoint::Saved& saved = **outcome.saved;
  note_success(saved.step);
  last_ = rank::SavedCheckpoint{.step = saved.step,
                                .uri = saved.uri,
                                .time = saved.time,
                                .bytes = saved.bytes,
                                .duration_seconds = to_seconds(outcome.duration)};
  requests_.saved({.step = saved.step, .uri = saved.uri});
  if (is_rank0_) {
    logging::info("checkpoint saved", {{"step", saved.step},
                                       {"uri", saved.uri},
                                       {"bytes", saved.bytes},
                                       {"seconds", to_seconds(outcome.duration)},
                                       {"stallSeconds", to_seconds(stall_)},
                                       {"staging", staging_of(outcome)}});
  }
  return {};
}

void Saver::log_copies(const checkpoint::SaveOutcome& outcome) {
  const Instant now = clock_.instant();
  if (outcome.copies && outcome.copies->error.empty()) {
    copies_log_.saved(
        outcome.step,
        {.now = now, .seconds = to_seconds(outcome.copies->duration), .stall_seconds = to_seconds(stall_)});
  } else if (outcome.copies) {
    copies_log_.failed(outcome.step, outcome.copies->error, now);
  } else if (outcome.is_copies_only && outcome.saved) {
    copies_log_.failed(outcome.step, outcome.left_out, now);
  }
}

void Saver::note_failure(std::int64_t step, const Error& error) {
  const Instant now = clock_.instant();
  error_ = error.message;
  owed_.failed(now);
  if (!outage_) outage_.emplace();
  if (!outage_->add_failure(now) || !is_rank0_) return;
  logging::warn("no checkpoint: saving failed; training goes on, and it is tried again",
                {{"step", step},
                 {"error", error.message},
                 {"failedSaves", outage_->failures()},
                 {"seconds", to_seconds(outage_->duration(now))}});
}

void Saver::note_success(std::int64_t step) {
  error_.clear();
  owed_.saved();
  const auto outage = std::exchange(outage_, std::nullopt);
  if (!outage || !is_rank0_) return;
  logging::info("checkpoints are saved again", {{"step", step},
                                                {"failedSaves", outage->failures()},
                                                {"seconds", to_seconds(outage->duration(clock_.instant()))}});
}

}  // namespace trainyard::train
