#pragma once

#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"
#include "operator/plan/plan.hpp"
#include "operator/reconcile/memory.hpp"
#include "operator/reconcile/observe.hpp"

namespace trainyard::reconcile {

/// Carries out plans. Stores every reply in the caches at once, so that the next plan rests on what this plan did. Any
/// thread may call, but never two at once for one job.
class Executor {
 public:
  /// All arguments outlive the executor.
  Executor(kube::Api& api, const Clock& clock, Caches& caches, Memory& memory, const ReconcilerOptions& options)
      : api_{api}, clock_{clock}, caches_{caches}, memory_{memory}, options_{options} {}

  /// True when none of `pods` still exists as a pod of the job with our label. Puts a pod that still exists back into
  /// the cache. Deletes a pod of the job that has lost its label, since no cache would show the pod, and takes it for
  /// gone.
  [[nodiscard]] Result<bool> are_gone(const api::TrainingJob& job, const std::vector<std::string>& pods);

  /// Writes the job's status. If the API server refuses it, writes only its decisions (refused_status.hpp).
  /// ErrorKind::conflict (a 409): somebody else wrote the job first. The cache now holds their version, the reconciler
  /// carries out none of the plan's actions, and plans again. not_found: the job no longer exists; invalid: the
  /// decisions are refused as well.
  [[nodiscard]] Result<void> write_status(const api::TrainingJob& job, const api::TrainingJobStatus& status);

  /// Carries out `actions` in three stages: (1) checks the template, and creates the service or has it select no pod;
  /// (2) deletes and creates pods concurrently, rank 0's pod first, and makes the service select the new pods once all
  /// are created; (3) deletes the service or the job and changes its finalizer. Leaves out stage 3 if anything before
  /// it failed.
  ///
  /// After a failed create no further create begins; deletes go on. A refused create (quota, admission, a wrong
  /// template, a taken name) is remembered for the next plan, and act() succeeds if nothing else failed. An error
  /// names the first failed create, unless that one was refused, and the first failed delete.
  ///
  /// A create that meets an object of its name (409) succeeds if that is the job's own, and is the refusal NameConflict
  /// if not; a delete that meets another UID (409) succeeds, since ours is gone. A finalizer that meets a 409 is left
  /// for the next plan, which finds the job as it is now. Any other 409 is an error, and is tried again with backoff.
  /// A 409 on the Lease is a renewal that failed (control/elector.hpp). The pauses, and the 409s of rank 0's server and
  /// of storage: docs/design-operator.md, "What happens on a 409?".
  [[nodiscard]] Result<void> act(const api::TrainingJob& job, const std::vector<plan::Action>& actions);

  /// Creates the events. One that cannot be written is logged and not tried again.
  void record_events(const api::TrainingJob& job, const std::vector<plan::Event>& events);

  /// Reads the job from the server into the cache.
  [[nodiscard]] Result<void> reread(const api::TrainingJob& job);

 private:
  Result<bool> is_gone(const api::TrainingJob& job, const std::string& pod);
  Result<void> put_status(const api::TrainingJob& job, const api::TrainingJobStatus& status);
  Result<void> check_pod(const api::TrainingJob& job, const plan::CheckPod& action);
  /// Creates an object. Succeeds also if it exists already and belongs to the job; already_exists if it belongs to
  /// somebody else.
  template <typename T, typename Parse>
  Result<void> create(const api::TrainingJob& job, const kube::ResourceType& type, const nlohmann::json& object,
                      control::ObjectCache<T>& cache, Parse parse);
  Result<void> create_pod(const api::TrainingJob& job, const plan::CreatePod& action);
  /// Makes the cached service select the attempt's pods, with 0 those of none. Does nothing if there is no service: the
  /// next plan creates it.
  Result<void> select_pods(const api::TrainingJob& job, std::int64_t attempt);
  struct PodOutcomes {
    Result<void> created;
    Result<void> deleted;
  };
  /// Makes all calls concurrently, and `selection`'s, if there is one, once the last pod is created. Returns the first
  /// error of the creates (or of the selection) and of the deletes.
  PodOutcomes change_pods(const api::TrainingJob& job, const std::vector<const plan::CreatePod*>& creates,
                          const std::vector<const plan::DeletePod*>& deletes, const plan::SelectPods* selection);
  /// Carries out an action of the first stage.
  Result<void> prepare(const api::TrainingJob& job, const plan::Action& action);
  /// Carries out an action of the last stage.
  Result<void> conclude(const api::TrainingJob& job, const plan::Action& action);
  /// Deletes the object. False if there was none with this UID.
  Result<bool> remove(const kube::ResourceType& type, const control::ObjectKey& key, const std::string& uid);
  Result<void> remove_unlabelled(const api::TrainingJob& job, const kube::ResourceType& type,
                                 const api::Metadata& metadata);
  Result<void> remove_pod(const api::TrainingJob& job, const plan::DeletePod& action);
  Result<void> remove_service(const api::TrainingJob& job, const plan::DeleteService& action);
  Result<void> remove_job(const api::TrainingJob& job, const plan::DeleteJob& action);
  /// Adds or removes our finalizer. Keeps the finalizers of others: the patch fails if the job's version has changed.
  Result<void> set_finalizer(const api::TrainingJob& job, bool is_wanted);
  Result<void> add_finalizer(const api::TrainingJob& job);
  /// Remembers why the creates stopped. Success if the reason was a refusal.
  Result<void> note_failure(const api::TrainingJob& job, const Error& error);

  kube::Api& api_;
  const Clock& clock_;
  Caches& caches_;
  Memory& memory_;
  const ReconcilerOptions& options_;
};

}  // namespace trainyard::reconcile
