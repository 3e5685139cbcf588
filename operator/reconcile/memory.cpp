#include "operator/reconcile/memory.hpp"

#include <utility>

namespace trainyard::reconcile {

JobMemory Memory::recall(const control::ObjectKey& key, const std::string& uid) const {
  const std::scoped_lock lock{mutex_};
  const auto found = jobs_.find(key);
  return found != jobs_.end() && found->second.uid == uid ? found->second : JobMemory{.uid = uid};
}

void Memory::note_refusal(const control::ObjectKey& key, const std::string& uid, const Error& error, Time now) {
  const std::scoped_lock lock{mutex_};
  JobMemory& job = memory_of(key, uid);
  const std::int64_t before = job.refusal && job.refusal->kind == error.kind ? job.refusal->count : 0;
  job.refusal = plan::Refusal{.kind = error.kind, .message = error.message, .count = before + 1, .last = now};
  job.create_failure.reset();
}

void Memory::note_failure(const control::ObjectKey& key, const std::string& uid, const Error& error, Time now) {
  const std::scoped_lock lock{mutex_};
  JobMemory& job = memory_of(key, uid);
  const Time since = job.create_failure ? job.create_failure->since : now;
  job.create_failure = plan::CreateFailure{.message = error.message, .since = since};
}

void Memory::note_no_failure(const control::ObjectKey& key, const std::string& uid) {
  const std::scoped_lock lock{mutex_};
  memory_of(key, uid).create_failure.reset();
}

void Memory::note_creation(const control::ObjectKey& key, const std::string& uid) {
  const std::scoped_lock lock{mutex_};
  JobMemory& job = memory_of(key, uid);
  job.refusal.reset();
  job.create_failure.reset();
}

void Memory::note_acceptance(const control::ObjectKey& key, const std::string& uid, std::int64_t spec_generation) {
  const std::scoped_lock lock{mutex_};
  JobMemory& job = memory_of(key, uid);
  job.accepted_spec_generation = spec_generation;
  job.refusal.reset();
}

void Memory::note_version(const control::ObjectKey& key, const std::string& uid, const std::string& version) {
  const std::scoped_lock lock{mutex_};
  memory_of(key, uid).written_version = version;
}

void Memory::note_write(const control::ObjectKey& key, const std::string& uid, const std::string& version, Time now) {
  const std::scoped_lock lock{mutex_};
  JobMemory& job = memory_of(key, uid);
  job.written_version = version;
  job.written = now;
}

void Memory::note_foreign_pods(const control::ObjectKey& key, const std::string& uid,
                               std::set<std::string> foreign_pods) {
  const std::scoped_lock lock{mutex_};
  memory_of(key, uid).foreign_pods = std::move(foreign_pods);
}

void Memory::forget(const control::ObjectKey& key) {
  const std::scoped_lock lock{mutex_};
  jobs_.erase(key);
}

JobMemory& Memory::memory_of(const control::ObjectKey& key, const std::string& uid) {
  JobMemory& job = jobs_[key];
  // Forgets the predecessor with the same key, which was deleted before the job was applied again.
  if (job.uid != uid) job = JobMemory{.uid = uid};
  return job;
}

}  // namespace trainyard::reconcile
