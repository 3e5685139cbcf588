#include "worker/logs/log_writer.hpp"

#include <exception>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::logs {
namespace {

std::size_t image_bytes_of(const Record& record) {
  std::size_t bytes = 0;
  for (const snapshot::UnencodedImage& image : record.images) bytes += image.planes.bytes.size();
  return bytes;
}

std::vector<Parts> make_parts(const WriterSettings& settings, Time now) {
  std::vector<Parts> parts;
  for (const api::LogFile file : settings.files)
    parts.emplace_back(file, PartName{.run_began = now, .attempt = settings.attempt}, settings.parts);
  return parts;
}

}  // namespace

LogWriter::LogWriter(std::unique_ptr<storage::Store> store, const Clock& clock, WriterSettings settings)
    : clock_{clock},
      settings_{std::move(settings)},
      store_{std::move(store)},
      parts_{make_parts(settings_, clock.now())},
      thread_{[this](const std::stop_token& stop) { run(stop); }} {}

void LogWriter::add(const Start& start) {
  const std::scoped_lock lock{mutex_};
  queue_.emplace_back(start);
  changed_.notify_all();
}

void LogWriter::add(Record record) {
  const std::scoped_lock lock{mutex_};
  const std::size_t values = record.values.size() + record.images.size();
  const std::size_t image_bytes = image_bytes_of(record);
  const bool has_room = queued_values_ + values <= settings_.queued_values_max &&
                        queued_image_bytes_ + image_bytes <= settings_.queued_image_bytes_max;
  if (has_room) {
    queued_values_ += values;
    queued_image_bytes_ += image_bytes;
    queue_.emplace_back(std::move(record));
  } else {
    ++dropped_at_queue_;
  }
  changed_.notify_all();
}

bool LogWriter::finish(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock{mutex_};
  is_hurried_ = true;
  changed_.notify_all();
  const bool is_done =
      changed_.wait_until(lock, deadline, [this] { return !is_hurried_ && !is_writing_ && queue_.empty(); });
  const bool is_stored = is_done && !has_unsaved_;
  // The thread counts the others, and is idle only when it is done.
  const std::int64_t dropped = dropped_at_queue_ + (is_done ? dropped_records_ : 0);
  lock.unlock();
  if (dropped > 0) logging::warn("the log files lack lines; the log itself has them", {{"lines", dropped}});
  return is_stored;
}

void LogWriter::run(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested() || !queue_.empty()) {
    wait_until_due(lock, stop);
    const std::vector<Entry> entries = std::exchange(queue_, {});
    queued_values_ = 0;
    queued_image_bytes_ = 0;
    const std::int64_t dropped = std::exchange(dropped_at_queue_, 0);
    is_hurried_ = false;
    is_writing_ = true;
    put_at_ = clock_.instant();
    lock.unlock();
    log_dropped(dropped);
    const bool is_written = write(entries);
    lock.lock();
    has_unsaved_ = !is_written;
    is_writing_ = false;
    changed_.notify_all();
  }
}

// Returns once there is something to put and the interval is over, or at once when finish() or the destructor waits.
void LogWriter::wait_until_due(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
  changed_.wait(lock, stop, [this] { return is_hurried_ || has_unsaved_ || !queue_.empty(); });
  const auto left = [this] {
    return put_at_ ? settings_.put_interval - (clock_.instant() - *put_at_) : Instant::duration{0};
  };
  while (!is_hurried_ && !stop.stop_requested() && left() > Instant::duration{0})
    changed_.wait_for(lock, stop, left(), [&] { return is_hurried_ || left() <= Instant::duration{0}; });
}

/// True when all parts are stored.
bool LogWriter::write(const std::vector<Entry>& entries) {
  Result<void> put;
  try {
    std::int64_t dropped = 0;
    for (const Entry& entry : entries) {
      bool has_room = true;
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        const std::string bytes = std::visit([&](const auto& each) { return encode(settings_.files[i], each); }, entry);
        has_room = parts_[i].add(bytes, clock_.now()) && has_room;
      }
      if (!has_room) ++dropped;
    }
    log_dropped(dropped);
    put = put_parts();
  } catch (const std::exception& error) {
    put = fail(ErrorKind::internal, error.what());
  }
  log_outcome(put);
  return put.has_value();
}

Result<void> LogWriter::put_parts() {
  for (Parts& parts : parts_) {
    while (const Parts::Unsaved* part = parts.unsaved()) {
      TRY(storage::put_text(*store_, settings_.folder + part->key, part->bytes));
      parts.mark_saved();
    }
  }
  return {};
}

void LogWriter::log_outcome(const Result<void>& put) {
  const auto seconds = [this] {
    return std::chrono::duration_cast<std::chrono::seconds>(outage_->duration(clock_.instant())).count();
  };
  if (!put) {
    if (!outage_) outage_.emplace();
    if (!outage_->add_failure(clock_.instant())) return;
    return logging::warn("the log files are not written; training goes on, and they are tried again",
                         {{"uri", store_->uri_of(settings_.folder)},
                          {"error", put.error().message},
                          {"failedPuts", outage_->failures()},
                          {"seconds", seconds()}});
  }
  if (outage_)
    logging::info("log files are written again", {{"failedPuts", outage_->failures()}, {"seconds", seconds()}});
  outage_.reset();
  if (!std::exchange(has_written_, true))
    logging::info("log files are written", {{"uri", store_->uri_of(settings_.folder)}});
}

void LogWriter::log_dropped(std::int64_t dropped) {
  if (dropped == 0) return;
  if (dropped_records_ == 0)
    logging::warn(
        "lines are left out of the log files while the store fails or is too slow; their number is logged at the end",
        {});
  dropped_records_ += dropped;
}

}  // namespace trainyard::logs
