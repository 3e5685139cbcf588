#pragma once

#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"
#include "operator/plan/plan.hpp"
#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/memory.hpp"
#include "operator/reconcile/reconciler_options.hpp"

namespace trainyard::reconcile {

/// Carries out plans. Every reply goes into the caches at once, so that the next plan knows what this one did.
/// Any thread may call, but never two at once for one job.
class Executor {
 public:
  /// All outlive the executor.
  Executor(kube::Api& api, const Clock& clock, Caches& caches, Memory& memory, const ReconcilerOptions& options)
      : api_{api}, clock_{clock}, caches_{caches}, memory_{memory}, options_{options} {}

  /// Whether the pods that a plan believes to be gone are so. One that is not goes into the cache, or goes altogether
  /// where it has lost the label by which caches know it.
  [[nodiscard]] Result<bool> are_gone(const api::TrainingJob& job, const std::vector<std::string>& pods);

  /// Where the API server refuses `status`, its decisions alone are written (refused_status.hpp). conflict: somebody
  /// wrote first; the cache then holds what they wrote. not_found: the job is gone. invalid: the decisions are refused
  /// as well.
  [[nodiscard]] Result<void> write_status(const api::TrainingJob& job, const api::TrainingJobStatus& status);

  /// Does all of `actions` in three steps: first the check of the template and the creation of the service; then the
  /// pods, which are deleted and created concurrently, rank 0's created first; last the deletion of the service or of
  /// the job, and changes of its finalizer. The last step is left out if anything before it failed. A refusal to create
  /// (quota, admission, a wrong template, a taken name) is remembered for the next plan and is no error; it ends the
  /// creating, not the deleting. An error names all that failed.
  [[nodiscard]] Result<void> act(const api::TrainingJob& job, const std::vector<plan::Action>& actions);

  /// Events are told once: one that cannot be written is logged and let go.
  void record_events(const api::TrainingJob& job, const std::vector<plan::Event>& events);

  /// The job as the server has it now, into the cache.
  [[nodiscard]] Result<void> reread(const api::TrainingJob& job);

 private:
  Result<bool> is_gone(const api::TrainingJob& job, const std::string& pod);
  Result<void> put_status(const api::TrainingJob& job, const api::TrainingJobStatus& status);
  Result<void> check_pod(const api::TrainingJob& job, const plan::CheckPod& action);
  /// An object that exists already counts as created if it is the job's; already_exists: it is another's.
  template <typename T, typename Parse>
  Result<void> create(const api::TrainingJob& job, const kube::ResourceType& type, const nlohmann::json& object,
                      control::ObjectCache<T>& cache, Parse parse);
  Result<void> create_pod(const api::TrainingJob& job, const plan::CreatePod& action);
  struct PodOutcomes {
    Result<void> created;
    Result<void> deleted;
  };
  /// Makes all calls, several at a time. Returns the first error of each kind of call.
  PodOutcomes change_pods(const api::TrainingJob& job, const std::vector<const plan::CreatePod*>& creates,
                          const std::vector<const plan::DeletePod*>& deletes);
  /// Checks the template or creates the service, which pods need.
  Result<void> prepare(const api::TrainingJob& job, const plan::Action& action);
  /// Does an action that comes after all of the pods.
  Result<void> conclude(const api::TrainingJob& job, const plan::Action& action);
  /// Whether there was such an object to remove.
  Result<bool> remove(const kube::ResourceType& type, const control::ObjectKey& key, const std::string& uid);
  Result<void> remove_unlabelled(const api::TrainingJob& job, const kube::ResourceType& type,
                                 const api::Metadata& metadata);
  Result<void> remove_pod(const api::TrainingJob& job, const plan::DeletePod& action);
  Result<void> remove_service(const api::TrainingJob& job, const plan::DeleteService& action);
  Result<void> remove_job(const api::TrainingJob& job, const plan::DeleteJob& action);
  /// Keeps the finalizers that others have set: the patch is conditional on the version that it was made from.
  Result<void> set_finalizer(const api::TrainingJob& job, bool is_wanted);
  Result<void> add_finalizer(const api::TrainingJob& job);
  /// Remembers, once a round, why nothing more was created. Success where it was a refusal.
  Result<void> note_failure(const api::TrainingJob& job, const Error& error);

  kube::Api& api_;
  const Clock& clock_;
  Caches& caches_;
  Memory& memory_;
  const ReconcilerOptions& options_;
};

}  // namespace trainyard::reconcile
