#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "checkpoint/snapshot/unencoded_snapshot.hpp"
#include "common/clock.hpp"
#include "common/outage.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::snapshot {

/// Encodes snapshots and puts them into a store, one after the other, on a thread of its own. At most one is being
/// written and one waits; merge() adds a newer one to the one that waits. If the store fails, the failure is logged (at
/// once, once a minute, and when it is over), and the next snapshot takes over what was not written. One thread calls.
class Recorder {
 public:
  /// `clock` outlives it.
  Recorder(std::unique_ptr<storage::Store> store, const Clock& clock, Limits limits = {});
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  /// Waits until what was recorded is written, or has failed.
  ~Recorder() = default;

  /// Queues `unencoded`, and returns at once.
  void record(UnencodedSnapshot unencoded);

  /// Waits up to `timeout` until all is written; what failed last is tried once more. True when all is written.
  [[nodiscard]] bool finish(std::chrono::milliseconds timeout);

 private:
  void run(const std::stop_token& stop);
  [[nodiscard]] bool write(const UnencodedSnapshot& unencoded);
  void log_outcome(const SnapshotId& id, const Result<std::size_t>& bytes);
  void give_back(UnencodedSnapshot unencoded);

  const Clock& clock_;
  const Limits limits_;
  // Only the thread uses these:
  std::unique_ptr<storage::Store> store_;
  std::optional<Outage> outage_;

  std::mutex mutex_;  // guards all below
  std::condition_variable_any changed_;
  std::optional<UnencodedSnapshot> next_;    // To be written next.
  std::optional<UnencodedSnapshot> failed_;  // Could not be written. Empty while there is a next_.
  bool is_writing_ = false;
  std::jthread thread_;
};

}  // namespace trainyard::snapshot
