#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/control/object_cache.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::reconcile {

/// The operator's memory of one job between two plans. If it is lost, the API server's answers bring it back.
struct JobMemory {
  std::string uid;
  std::optional<plan::Refusal> refusal;
  std::optional<plan::CreateFailure> create_failure;
  std::int64_t accepted_spec_generation = -1;  ///< The spec generation whose template passed a dry run.
  std::string written_version;                 ///< resourceVersion of our own last write.
  std::optional<Time> written;                 ///< When we last wrote the status.
  /// UIDs of pods that are not the operator's: they had the name of an attempt that had not begun, by the server's
  /// state of the job.
  std::set<std::string> foreign_pods;
};

/// Any thread may call.
class Memory {
 public:
  /// The memory of the job with this UID; empty values if there is none.
  [[nodiscard]] JobMemory recall(const control::ObjectKey& key, const std::string& uid) const;
  void note_refusal(const control::ObjectKey& key, const std::string& uid, const Error& error, Time now);
  /// Notes a create that failed without a refusal. `create_failure` keeps the time of the first of these failures until
  /// note_no_failure(), note_creation() or note_refusal().
  void note_failure(const control::ObjectKey& key, const std::string& uid, const Error& error, Time now);
  void note_no_failure(const control::ObjectKey& key, const std::string& uid);
  /// Notes a create that succeeded: forgets earlier failures and refusals.
  void note_creation(const control::ObjectKey& key, const std::string& uid);
  void note_acceptance(const control::ObjectKey& key, const std::string& uid, std::int64_t spec_generation);
  /// Notes the version that our own write has made. Older versions of the job are not planned for.
  void note_version(const control::ObjectKey& key, const std::string& uid, const std::string& version);
  /// Notes our own write of the job's status.
  void note_write(const control::ObjectKey& key, const std::string& uid, const std::string& version, Time now);
  void note_foreign_pods(const control::ObjectKey& key, const std::string& uid, std::set<std::string> foreign_pods);
  void forget(const control::ObjectKey& key);

 private:
  JobMemory& memory_of(const control::ObjectKey& key, const std::string& uid);  // Needs mutex_.

  mutable std::mutex mutex_;  // guards jobs_
  std::map<control::ObjectKey, JobMemory> jobs_;
};

}  // namespace trainyard::reconcile
