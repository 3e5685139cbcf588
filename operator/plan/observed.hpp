#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/training_job.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/settings.hpp"
#include "operator/plan/progress_report.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::plan {

/// The API server's refusal of our last create for this job: `invalid` (a wrong template), `forbidden` (quota,
/// admission) or `already_exists` (somebody else's object has the name).
struct Refusal {
  ErrorKind kind = ErrorKind::forbidden;
  std::string message;
  std::int64_t count = 1;  ///< Refusals in a row.
  Time last{};
  bool operator==(const Refusal&) const = default;
};

/// Creates for this job that have failed for some time without a refusal.
struct CreateFailure {
  std::string message;  ///< Message of the last failure.
  Time since{};         ///< When the first of the failures in a row happened.
  bool operator==(const CreateFailure&) const = default;
};

/// Everything that a decision about one job rests on.
struct Observed {
  api::TrainingJob job;
  std::vector<resource::Pod> pods;                    ///< The job's own (manifest::is_pod_of), of every attempt.
  std::optional<resource::Service> service;           ///< The job's own.
  std::map<std::string, resource::Node> nodes;        ///< By name; empty where the operator may not read nodes.
  std::map<std::string, std::string> mount_failures;  ///< By pod name: the kubelet's last message about its volumes.
  std::optional<ProgressReport> progress;
  std::optional<Time> status_written;  ///< When this process last wrote the job's status.
  std::optional<Refusal> refusal;
  std::optional<CreateFailure> create_failure;
  bool is_template_accepted = false;  ///< A dry run of rank 0's pod succeeded for the present spec generation.
  manifest::ClusterTraits traits;
  manifest::Settings settings;
};

}  // namespace trainyard::plan
