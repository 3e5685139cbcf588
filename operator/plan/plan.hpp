#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/training_job.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Asks the API server by a strict dry run whether it would accept this pod. Stores nothing.
struct CheckPod {
  nlohmann::json pod;
};
struct CreateService {
  nlohmann::json service;
};
struct CreatePod {
  /// Builds the pod, equal at each call; any thread may call. The pod is built when it is created, because all pods of
  /// a large group would take tens of megabytes at once.
  std::function<nlohmann::json()> pod;
};
struct DeletePod {
  std::string name;
  std::string uid;
  bool operator==(const DeletePod&) const = default;
};
struct DeleteService {
  std::string name;
  std::string uid;
};
/// Makes the job's service select no pod.
struct DeselectPods {};
/// Makes the job's service select the pods of `attempt`, and of no other.
struct SelectPods {
  std::int64_t attempt = 0;
};
struct DeleteJob {
  std::string uid;
};
/// Adds clean_up_finalizer (deletion.hpp) to the job's finalizers.
struct AddFinalizer {};
/// Removes clean_up_finalizer.
struct RemoveFinalizer {};
/// Each action may be repeated without harm: creates have fixed names, deletes name the UID.
using Action = std::variant<CheckPod, CreateService, CreatePod, DeletePod, DeselectPods, SelectPods, DeleteService,
                            DeleteJob, AddFinalizer, RemoveFinalizer>;

/// An event for the user, recorded once the status that it describes is stored. A job has one event of each reason.
struct Event {
  std::string reason;  ///< "Pending", "Running", "Restarting", "Suspended", "Succeeded", "Failed"
  bool is_warning = false;
  std::string note;
  std::int64_t count = 1;  ///< How often it has happened so far, if known.
  bool operator==(const Event&) const = default;
};

struct Plan {
  /// Written first, under the job's resource version; the actions follow only if that succeeds. Empty: the stored
  /// status stays.
  std::optional<api::TrainingJobStatus> status;
  /// Names of pods that the plan believes to be gone. If the API server still has one of them, the plan must not be
  /// carried out.
  std::vector<std::string> pods_believed_gone;
  std::vector<Action> actions;  ///< In order.
  std::vector<Event> events;
  std::optional<std::chrono::milliseconds> requeue_after;
  /// True when a pod exists of a later attempt than the status records. Either the observed job is older than the
  /// operator's own last decision, or the pod is not the operator's. The job as read from the server shows which.
  bool is_stale = false;
};

/// The plan for a job at `now`. A decision changes only the status. Its actions follow in the next plan, which finds
/// the decision recorded: a crash at any point may repeat actions, but never decisions.
[[nodiscard]] Plan make_plan(const Observed& observed, Time now);

}  // namespace trainyard::plan
