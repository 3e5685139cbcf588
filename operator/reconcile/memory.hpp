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

/// What the operator remembers of one job between two plans. All of it can be found out again by asking the API server.
struct JobMemory {
  std::string uid;
  std::optional<plan::Refusal> refusal;
  std::optional<plan::CreateFailure> create_failure;
  std::int64_t accepted_generation = -1;  ///< For which a dry run of the template succeeded.
  std::string written_version;            ///< resourceVersion of our own last write.
  std::optional<Time> written;            ///< When we last wrote the status.
  /// UIDs of pods that had the name of an attempt which, as the server said afterwards, had not begun: not the
  /// operator's work.
  std::set<std::string> foreign_pods;
};

/// Any thread may call.
class Memory {
 public:
  /// Empty where nothing is remembered of the job with this UID.
  [[nodiscard]] JobMemory recall(const control::ObjectKey& key, const std::string& uid) const;
  void note_refusal(const control::ObjectKey& key, const std::string& uid, const Error& error, Time now);
  /// A create that was neither done nor refused; one more in a row, unless note_no_failure came between.
  void note_failure(const control::ObjectKey& key, const std::string& uid, const Error& error, Time now);
  void note_no_failure(const control::ObjectKey& key, const std::string& uid);
  /// Forgets earlier failures and refusals, since the job advances.
  void note_creation(const control::ObjectKey& key, const std::string& uid);
  void note_acceptance(const control::ObjectKey& key, const std::string& uid, std::int64_t generation);
  /// The job as our own write has left it: what is older is not planned for.
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
