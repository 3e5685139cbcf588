#include "checkpoint/snapshot/recorder.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::snapshot {
namespace {

Result<void> put_once(storage::Store& store, const std::string& key, const std::string& text) {
  const bool is_conditional = store.has_conditional_create();
  auto put = storage::put_text(store, key, text, {.if_absent = is_conditional});
  // It has only said now that it has no such thing.
  if (!put && is_conditional && !store.has_conditional_create()) return storage::put_text(store, key, text);
  if (put || put.error().kind != ErrorKind::already_exists) return put;
  const auto there = TRY(storage::get_text(store, key));
  // This very object, when the reply to an earlier try was lost.
  if (there == text) return {};
  return fail(ErrorKind::conflict,
              fmt::format("{} is there already, of a run whose claim is gone: remove what it left", store.uri_of(key)));
}

}  // namespace

Recorder::Recorder(std::unique_ptr<storage::Store> store, const Clock& clock, Limits limits)
    : clock_(clock),
      limits_(limits),
      store_(std::move(store)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Recorder::record(Draft draft) {
  const std::scoped_lock lock{mutex_};
  auto& older = next_ ? next_ : failed_;
  next_ = older ? merge(*std::exchange(older, std::nullopt), std::move(draft), limits_) : std::move(draft);
  changed_.notify_all();
}

bool Recorder::finish(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto is_idle = [this] { return !next_ && !is_writing_; };
  std::unique_lock lock{mutex_};
  if (changed_.wait_until(lock, deadline, is_idle) && failed_) {
    next_ = std::exchange(failed_, std::nullopt);
    changed_.notify_all();
    changed_.wait_until(lock, deadline, is_idle);
  }
  return is_idle() && !failed_;
}

void Recorder::run(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (changed_.wait(lock, stop, [this] { return next_.has_value(); })) {
    Draft draft = *std::exchange(next_, std::nullopt);
    is_writing_ = true;
    lock.unlock();
    const bool is_written = write(draft);
    lock.lock();
    if (!is_written) give_back(std::move(draft));
    is_writing_ = false;
    changed_.notify_all();
  }
}

bool Recorder::write(const Draft& draft) {
  const std::string key = checkpoint::snapshot_key(draft.id);
  const auto put = [&]() -> Result<std::size_t> {
    const Encoded encoded = encode(draft);
    for (const std::string& error : encoded.refused)
      logging::warn("an image is left out of the snapshot", {{"step", draft.id.step}, {"error", error}});
    const std::string text = to_text(encoded.snapshot);
    return put_once(*store_, key, text).map([&] { return text.size(); });
  };
  Result<std::size_t> bytes;
  try {
    bytes = put();
  } catch (const std::exception& error) {
    bytes = fail(ErrorKind::internal, error.what());
  }
  tell(draft.id, bytes);
  return bytes.has_value();
}

void Recorder::tell(const SnapshotId& id, const Result<std::size_t>& bytes) {
  const auto seconds = [this] {
    return std::chrono::duration_cast<std::chrono::seconds>(outage_->duration(clock_.instant())).count();
  };
  if (!bytes) {
    if (!outage_) outage_.emplace();
    if (!outage_->add_failure(clock_.instant())) return;
    return logging::warn("no snapshot: saving failed; training goes on, and the next one holds its metrics too",
                         {{"step", id.step},
                          {"error", bytes.error().message},
                          {"failedSaves", outage_->failures()},
                          {"seconds", seconds()}});
  }
  if (outage_)
    logging::info("snapshots are saved again",
                  {{"step", id.step}, {"failedSaves", outage_->failures()}, {"seconds", seconds()}});
  outage_.reset();
  logging::info("snapshot saved",
                {{"step", id.step}, {"uri", store_->uri_of(checkpoint::snapshot_key(id))}, {"bytes", *bytes}});
}

// Under the lock.
void Recorder::give_back(Draft draft) {
  auto& place = next_ ? next_ : failed_;
  place = next_ ? merge(std::move(draft), *std::exchange(next_, std::nullopt), limits_) : std::move(draft);
}

}  // namespace trainyard::snapshot
