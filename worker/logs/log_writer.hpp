#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "api/training_spec.hpp"
#include "common/clock.hpp"
#include "common/outage.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/logs/parts.hpp"
#include "worker/logs/record.hpp"

namespace trainyard::logs {

struct WriterSettings {
  std::vector<api::LogFile> files;
  std::string folder;  ///< Before each key: empty, or with a slash at its end.
  std::int64_t attempt = 1;
  /// From the beginning of a put to that of the next one, so that a store is not asked for each line.
  std::chrono::nanoseconds put_interval = std::chrono::seconds{10};
  std::size_t queued_values_max = 100'000;  ///< Values and images in the queue: some 10 MiB without images.
  std::size_t queued_image_bytes_max = std::size_t{32} << 20;
  PartLimits parts;
};

/// Writes log files into a store, on a thread of its own. If the store fails, the failure is logged (at once, once a
/// minute, and when it is over), and what could not be put is tried again; records for which there is no room meanwhile
/// are dropped and counted. One thread calls.
class LogWriter {
 public:
  /// `clock` outlives it.
  LogWriter(std::unique_ptr<storage::Store> store, const Clock& clock, WriterSettings settings);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  /// Puts what was added, by one try.
  ~LogWriter() = default;

  /// Queue the argument, and return at once.
  void add(const Start& start);
  void add(Record record);

  /// Puts all that was added without waiting for the interval. Waits for it up to `timeout`. True when all is stored;
  /// what was dropped is not counted.
  [[nodiscard]] bool finish(std::chrono::milliseconds timeout);

 private:
  using Entry = std::variant<Start, Record>;

  void run(const std::stop_token& stop);
  void wait_until_due(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
  [[nodiscard]] bool write(const std::vector<Entry>& entries);
  [[nodiscard]] Result<void> put_parts();
  void log_outcome(const Result<void>& put);
  void log_dropped(std::int64_t dropped);

  const Clock& clock_;
  const WriterSettings settings_;
  // Only the thread uses these:
  std::unique_ptr<storage::Store> store_;
  std::vector<Parts> parts_;  // One for each of settings_.files.
  std::optional<Outage> outage_;
  std::int64_t dropped_records_ = 0;
  bool has_written_ = false;

  std::mutex mutex_;  // guards all below
  std::condition_variable_any changed_;
  std::vector<Entry> queue_;
  std::size_t queued_values_ = 0;
  std::size_t queued_image_bytes_ = 0;
  std::int64_t dropped_at_queue_ = 0;  // Records since the last write.
  std::optional<Instant> put_at_;      // When the last put began.
  bool has_unsaved_ = false;
  bool is_writing_ = false;
  bool is_hurried_ = false;  // finish() waits.
  std::jthread thread_;
};

}  // namespace trainyard::logs
