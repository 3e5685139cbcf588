#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "operator/plan/cluster_traits.hpp"
#include "operator/resource/training_job.hpp"

namespace trainyard::plan {

/// `<job>-<uid4>`: every object that we own begins with it. A job that was deleted and applied again has another UID
/// and so never meets the names of its predecessor.
[[nodiscard]] std::string owned_name(const resource::TrainingJob& job);
[[nodiscard]] std::string service_name(const resource::TrainingJob& job);
/// `<job>-<uid4>-<attempt>-<rank>`.
[[nodiscard]] std::string pod_name(const resource::TrainingJob& job, std::int64_t attempt, std::int64_t rank);
/// `<job>-<uid4>-cleanup`: of the pod that removes a deleted job's checkpoints. It is in no attempt.
[[nodiscard]] std::string clean_up_pod_name(const resource::TrainingJob& job);
[[nodiscard]] PodPlace place_of(const resource::TrainingJob& job, std::int64_t attempt, std::int64_t rank);

[[nodiscard]] std::string job_selector(const resource::TrainingJob& job);

/// The number in the name of a pod of ours; -1 where the name is none of ours, so that it equals no attempt and no
/// rank.
[[nodiscard]] std::int64_t attempt_of(const resource::Pod& pod);
[[nodiscard]] std::int64_t rank_of(const resource::Pod& pod);

}  // namespace trainyard::plan
