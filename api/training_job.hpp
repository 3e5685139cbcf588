#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/metadata.hpp"
#include "api/request.hpp"
#include "api/training_spec.hpp"

namespace trainyard::api {

struct RestartBudget {
  std::int64_t max = 0;  ///< Restarts allowed for this cause; the next one fails the job.
  bool operator==(const RestartBudget&) const = default;
};

struct RestartBackoff {
  std::chrono::milliseconds initial{5'000};
  std::chrono::milliseconds max{300'000};
  bool operator==(const RestartBackoff&) const = default;
};

struct RestartSpec {
  RestartBudget application{3};
  RestartBudget infrastructure{10};
  RestartBackoff backoff;
  /// Attempts in a row that the application ended without a new checkpoint. Only for jobs that save checkpoints.
  std::int64_t no_progress_attempts = 3;
  bool operator==(const RestartSpec&) const = default;
};

enum class CleanPods { none, running, all };

struct TrainingJobSpec {
  std::int64_t replicas = 1;  ///< Pods.
  std::int64_t gpus_per_pod = 1;
  /// The PodTemplateSpec as the user wrote it; an empty object if there is none.
  nlohmann::json pod_template = nlohmann::json::object();
  std::optional<TrainingSpec> training;
  std::optional<CheckpointSpec> checkpoint;
  RestartSpec restart;
  bool is_suspended = false;
  std::optional<std::chrono::seconds> active_deadline;
  std::optional<std::chrono::seconds> ttl_after_finished;
  CleanPods clean_pods = CleanPods::running;
  bool operator==(const TrainingJobSpec&) const = default;
};

enum class Phase { none, pending, starting, running, restarting, suspending, suspended, succeeded, failed, deleting };
enum class Cause { application, infrastructure, deleted, suspended, spec_changed };

struct Condition {
  std::string type;
  bool is_true = false;
  std::string reason;
  std::string message;
  std::optional<Time> last_transition;
  std::int64_t observed_generation = 0;
  bool operator==(const Condition&) const = default;
};

/// How one attempt ended. The status keeps the last few attempt records, the newest one last.
struct AttemptRecord {
  std::int64_t number = 0;
  std::optional<Time> start;
  std::optional<Time> end;
  std::optional<Cause> cause;
  std::optional<std::int64_t> rank;  ///< The culprit: index of its pod in the group.
  std::string pod;
  std::string node;
  std::optional<int> exit_code;
  std::string message;
  bool operator==(const AttemptRecord&) const = default;
};

struct ReplicaCounts {
  std::int64_t desired = 0;
  std::int64_t ready = 0;
  std::int64_t pending = 0;
  std::int64_t succeeded = 0;
  std::int64_t failed = 0;
  bool operator==(const ReplicaCounts&) const = default;
};

struct Progress {
  std::int64_t epoch = 0;  ///< From 1.
  std::int64_t step = 0;   ///< Optimizer steps finished.
  std::optional<std::int64_t> total_steps;
  std::optional<double> loss;  ///< Left out when it is not finite.
  std::optional<double> accuracy;
  std::optional<double> samples_per_second;
  std::optional<Time> estimated_end;
  bool operator==(const Progress&) const = default;
};

struct CheckpointStatus {
  std::int64_t step = 0;
  std::string uri;
  std::optional<Time> time;
  std::optional<std::int64_t> bytes;
  std::optional<double> duration_seconds;  ///< From the copy of the state to the end of the save.
  bool operator==(const CheckpointStatus&) const = default;
};

using contract::RequestState;

/// A request for a checkpoint, and its outcome.
struct CheckpointRequest {
  std::string id;
  RequestState state = RequestState::pending;
  std::optional<std::int64_t> step;
  std::string uri;
  std::optional<Time> time;  ///< When it was made; once it is answered, when it was answered.
  std::string message;
  bool operator==(const CheckpointRequest&) const = default;
};

struct RestartCounts {
  std::int64_t application = 0;
  std::int64_t infrastructure = 0;
  bool operator==(const RestartCounts&) const = default;
};

struct TrainingJobStatus {
  Phase phase = Phase::none;
  /// Why the phase is what it is, in one CamelCase word: "Unschedulable", "QuotaExceeded", "ImagePull", ...
  std::string reason;
  std::string message;
  std::int64_t attempt = 0;                   ///< From 1; 0 before the first.
  std::int64_t attempt_generation = 0;        ///< metadata.generation of the spec that the attempt was made from.
  bool is_formed = false;                     ///< Every pod of the attempt was created.
  std::vector<std::int64_t> succeeded_ranks;  ///< Pods of this attempt that succeeded, sorted.
  std::int64_t observed_generation = 0;
  std::string ready;      ///< "2/2"
  std::string step_text;  ///< "512/900"
  std::int64_t restart_count = 0;
  std::string selector;
  ReplicaCounts replicas;
  std::optional<Progress> progress;
  std::optional<CheckpointStatus> checkpoint;
  std::optional<CheckpointRequest> checkpoint_request;  ///< The newest request of a user.
  /// The operator's own request before it ended the pods of the last suspension.
  std::optional<CheckpointRequest> suspend_request;
  RestartCounts restarts;  ///< Charged to the budgets; `infrastructure` goes back to 0 with a new checkpoint.
  std::int64_t attempts_without_progress = 0;
  std::optional<Time> restart_not_before;  ///< End of the backoff.
  std::vector<std::string> avoided_nodes;
  std::string worker_image;  ///< Image of this attempt's pods if the template names none.
  std::optional<Time> start_time;
  std::optional<Time> completion_time;
  std::vector<AttemptRecord> attempts;
  std::vector<Condition> conditions;
  bool operator==(const TrainingJobStatus&) const = default;
};

struct TrainingJob {
  Metadata metadata;
  TrainingJobSpec spec;
  TrainingJobStatus status;
  bool operator==(const TrainingJob&) const = default;
};

/// Reads a job that the API server returned. The server has filled in the defaults; fields that are absent all the same
/// get the defaults above. ErrorKind::invalid names the field.
[[nodiscard]] Result<TrainingJob> parse_training_job(const nlohmann::json& object);
[[nodiscard]] Result<TrainingJobStatus> parse_status(const nlohmann::json& status);
/// JSON as in the API. Times are written in whole seconds, `restart_not_before` in microseconds. Empty fields and
/// numbers that are not finite are left out.
[[nodiscard]] nlohmann::json to_json(const TrainingJobStatus& status);

[[nodiscard]] std::string_view to_string(Phase phase);
[[nodiscard]] std::string_view to_string(Cause cause);

}  // namespace trainyard::api
