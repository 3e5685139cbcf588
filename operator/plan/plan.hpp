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

/// Asks the API server whether it would take this pod: a strict dry run that stores nothing.
struct CheckPod {
  nlohmann::json pod;
};
struct CreateService {
  nlohmann::json service;
};
struct CreatePod {
  std::int64_t rank = 0;  ///< -1: a pod of no attempt, which cleans up.
  /// Builds the pod, the same at each call; any thread may call. Built only when it is created, since all pods of a
  /// large group would take tens of megabytes at once.
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
struct DeleteJob {
  std::string uid;
};
/// Sets clean_up_finalizer (finalizer.hpp) on the job, whatever others have set.
struct AddFinalizer {};
/// Takes it off again.
struct RemoveFinalizer {};
/// Each may be repeated without harm: creates have fixed names, deletes name the UID.
using Action = std::variant<CheckPod, CreateService, CreatePod, DeletePod, DeleteService, DeleteJob, AddFinalizer,
                            RemoveFinalizer>;

/// Recorded for the user once the status that it describes is stored. A job has one event of each reason.
struct Event {
  std::string reason;  ///< "Pending", "Running", "Restarting", "Suspended", "Succeeded", "Failed"
  bool is_warning = false;
  std::string note;
  std::int64_t count = 1;  ///< How often it has happened by now, where that is known.
  bool operator==(const Event&) const = default;
};

struct Plan {
  /// Written first, under the job's resource version; nothing else is done unless that succeeds. Empty: it stands as it
  /// is.
  std::optional<api::TrainingJobStatus> status;
  /// Pods that the plan believes to be gone. Where the API server still has one of them, the plan must not be carried
  /// out.
  std::vector<std::string> pods_believed_gone;
  std::vector<Action> actions;  ///< In order.
  std::vector<Event> events;
  std::optional<std::chrono::milliseconds> requeue_after;
  /// True when a pod of a later attempt exists than the status records: either the observed job is older than the
  /// operator's own last decision, or the pod is not the operator's. Reading the job from the server tells which.
  bool is_stale = false;
};

/// What to do about a job now. Decisions change the status and nothing else: their consequences follow in the next
/// plan, which finds the decision recorded. So a crash at any point repeats at most actions, never decisions.
[[nodiscard]] Plan make_plan(const Observed& observed, Time now);

}  // namespace trainyard::plan
