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
#include "operator/resource/node.hpp"
#include "operator/resource/pod.hpp"
#include "operator/resource/service.hpp"

namespace trainyard::plan {

/// The API server's last answer to our wish to create something for this job, where it was no: `invalid` (the template
/// is wrong), `forbidden` (quota, admission) or `already_exists` (another's object has the name).
struct Refusal {
  ErrorKind kind = ErrorKind::forbidden;
  std::string message;
  std::int64_t count = 1;  ///< Refusals in a row.
  Time last{};
  bool operator==(const Refusal&) const = default;
};

/// The API server has not managed, for some time, to create something for this job, and has not refused it either.
struct CreateFailure {
  std::string message;  ///< Of the last try.
  Time since{};         ///< When the first of the tries in a row failed.
  bool operator==(const CreateFailure&) const = default;
};

/// Everything that a decision about one job rests on.
struct Observed {
  api::TrainingJob job;
  std::vector<resource::Pod> pods;                    ///< Those of the job (ownership.hpp), of every attempt.
  std::optional<resource::Service> service;           ///< That of the job (ownership.hpp).
  std::map<std::string, resource::Node> nodes;        ///< By name; empty where the operator may not read nodes.
  std::map<std::string, std::string> mount_failures;  ///< By pod name: what its kubelet last said of its volumes.
  std::optional<ProgressReport> progress;
  std::optional<Time> status_written;  ///< When this process wrote the job's status last.
  std::optional<Refusal> refusal;
  std::optional<CreateFailure> create_failure;
  bool is_template_accepted = false;  ///< A dry run of rank 0's pod succeeded for the job's present generation.
  manifest::ClusterTraits traits;
  manifest::Settings settings;
};

}  // namespace trainyard::plan
