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
  // The store has found out just now that its server has no conditional create.
  if (!put && is_conditional && !store.has_conditional_create()) return storage::put_text(store, key, text);
  if (put || put.error().kind != ErrorKind::already_exists) return put;
  const auto there = TRY(storage::get_text(store, key));
  // The object is our own if the reply to an earlier try was lost.
  if (there == text) return {};
  return fail(ErrorKind::conflict,
              fmt::format("{} is there already, of a run whose claim is gone: remove what it left", store.uri_of(key)));
}

}  // namespace

Recorder::Recorder(std::unique_ptr<storage::Store> store, const Clock& clock, Limits limits)
    : clock_{clock}, limits_{limits}, store_{std::move(store)}, thread_{[this](const std::stop_token& stop) {
        run(stop);
      }} {}

void Recorder::record(UnencodedSnapshot unencoded) {
  const std::scoped_lock lock{mutex_};
  auto& older = next_ ? next_ : failed_;
  next_ = older ? merge(*std::exchange(older, std::nullopt), std::move(unencoded), limits_) : std::move(unencoded);
  changed_.notify_all();
}

bool Recorder::finish(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
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
    UnencodedSnapshot unencoded = *std::exchange(next_, std::nullopt);
    is_writing_ = true;
    lock.unlock();
    const bool is_written = write(unencoded);
    lock.lock();
    if (!is_written) give_back(std::move(unencoded));
    is_writing_ = false;
    changed_.notify_all();
  }
}

bool Recorder::write(const UnencodedSnapshot& unencoded) {
  const std::string key = checkpoint::snapshot_key(unencoded.id);
  const auto put = [&]() -> Result<std::size_t> {
    const EncodedSnapshot encoded = encode(unencoded);
    for (const std::string& error : encoded.image_errors)
      logging::warn("an image is left out of the snapshot", {{"step", unencoded.id.step}, {"error", error}});
    const std::string text = to_text(encoded.snapshot);
    return put_once(*store_, key, text).map([&] { return text.size(); });
  };
  Result<std::size_t> bytes;
  try {
    bytes = put();
  } catch (const std::exception& error) {
    bytes = fail(ErrorKind::internal, error.what());
  }
  log_outcome(unencoded.id, bytes);
  return bytes.has_value();
}

void Recorder::log_outcome(const SnapshotId& id, const Result<std::size_t>& bytes) {
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

// The caller holds the lock.
void Recorder::give_back(UnencodedSnapshot unencoded) {
  auto& place = next_ ? next_ : failed_;
  place = next_ ? merge(std::move(unencoded), *std::exchange(next_, std::nullopt), limits_) : std::move(unencoded);
}

}  // namespace trainyard::snapshot
