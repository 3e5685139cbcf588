#pragma once

#include <torch/types.h>

#include "api/training_spec.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "storage/store.hpp"
#include "worker/dist/group.hpp"
#include "worker/dist/steps_in_flight.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/wait_for_work.hpp"
#include "worker/train/log_files.hpp"
#include "worker/train/module_replicas.hpp"
#include "worker/train/process_sets.hpp"

namespace trainyard::train {

/// References and pointers outlive the call.
struct EvaluationJobParts {
  const api::TrainingSpec& training;
  Module& module;
  ModuleReplicas* replicas = nullptr;  ///< They share the batches of `module`; nullptr: it has none.
  const Dataset& data;
  strategy::GradientSync& gradients;  ///< Sends the weights of rank 0 to the other ranks.
  dist::Group& group;
  rank::RankLink& link;
  strategy::WaitForWork wait;
  dist::StepsInFlight* in_flight = nullptr;  ///< As in TrainerParts.
  storage::S3Options weights_s3;
  checkpoint::StartPatience start_patience{};  ///< For the storage of the weights.
  LogFiles* log_files = nullptr;               ///< nullptr: none are written on this rank.
  storage::Store* predictions = nullptr;       ///< Needed by the task predict.
  const ProcessSets* process_sets = nullptr;   ///< nullptr: the module has none.
  torch::Device device = torch::kCPU;
  const Clock& clock;
};

/// The samples that a job of `task` takes: for test and predict those of Datasets::test, and without such those of the
/// validation. nullptr: there are none.
[[nodiscard]] const Dataset* data_of(api::Task task, const Datasets& datasets);

/// Runs a job whose training.task is validate, test or predict: loads training.model.weights, gives each sample of the
/// data to one rank, and returns how the rank ends, with the metrics in the message. A job that is stopped begins
/// afresh at its next start. Collective. Throws what the module throws, and InvalidJob for predictions that cannot be
/// stored.
[[nodiscard]] rank::RankEnd run_evaluation_job(const EvaluationJobParts& parts);

}  // namespace trainyard::train
