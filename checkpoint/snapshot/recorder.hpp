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
/// written and one waits: what comes meanwhile takes over what the waiting one holds, as merge() says. A store that
/// fails is logged (at once, once a minute while it lasts, and when it is over), and the next snapshot takes over what
/// was not written. One thread calls.
class Recorder {
 public:
  /// `clock` outlives it.
  Recorder(std::unique_ptr<storage::Store> store, const Clock& clock, Limits limits = {});
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  /// Returns when what was recorded is there, or has failed.
  ~Recorder() = default;

  /// Has `unencoded` written, and returns at once.
  void record(UnencodedSnapshot unencoded);

  /// Returns when all is written, or after `timeout`; what failed last is tried once more. Whether all is written.
  [[nodiscard]] bool finish(std::chrono::milliseconds timeout);

 private:
  void run(const std::stop_token& stop);
  [[nodiscard]] bool write(const UnencodedSnapshot& unencoded);
  void log_outcome(const SnapshotId& id, const Result<std::size_t>& bytes);
  void give_back(UnencodedSnapshot unencoded);

  const Clock& clock_;
  const Limits limits_;
  // Of the thread:
  std::unique_ptr<storage::Store> store_;
  std::optional<Outage> outage_;

  std::mutex mutex_;  // guards all below
  std::condition_variable_any changed_;
  std::optional<UnencodedSnapshot> next_;    // Is to be written.
  std::optional<UnencodedSnapshot> failed_;  // Could not be; waits for the next one. Only while there is no next_.
  bool is_writing_ = false;
  std::jthread thread_;
};

}  // namespace trainyard::snapshot
