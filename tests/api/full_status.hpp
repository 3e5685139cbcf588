#pragma once

#include "api/training_job.hpp"
#include "common/time_text.hpp"

namespace trainyard::api {

/// A status whose fields all differ from their defaults, and fields of one type from each other.
inline TrainingJobStatus a_full_status() {
  const auto time = [start = *parse_rfc3339("2026-11-21T10:00:00Z")](int minutes) {
    return start + std::chrono::minutes{minutes};
  };
  TrainingJobStatus status;
  status.phase = Phase::running;
  status.reason = "AllRanksRun";
  status.message = "2 of 2 pods run";
  status.attempt = 2;
  status.attempt_generation = 4;
  status.is_formed = true;
  status.succeeded_ranks = {0, 1};
  status.observed_generation = 5;
  status.ready = "2/2";
  status.step_text = "512/900";
  status.restart_count = 3;
  status.selector = "trainyard.dev/job=a";
  status.replicas = {.desired = 15, .ready = 1, .pending = 2, .succeeded = 4, .failed = 8};
  status.progress = Progress{.epoch = 1,
                             .step = 512,
                             .total_steps = 900,
                             .loss = 0.5,
                             .accuracy = 0.25,
                             .samples_per_second = 1000,
                             .estimated_end = time(90)};
  status.checkpoint = CheckpointStatus{
      .step = 400, .uri = "s3://models/a/step-400/g-2", .time = time(50), .bytes = 12, .duration_seconds = 1.5};
  status.checkpoint_request = CheckpointRequest{.id = "before-lunch",
                                                .state = RequestState::done,
                                                .step = 401,
                                                .uri = "s3://models/a/step-401/g-2",
                                                .time = time(55),
                                                .message = "it is saved"};
  status.suspend_request =
      CheckpointRequest{.id = "suspend-3", .state = RequestState::failed, .time = time(57), .message = "no space"};
  status.restarts = {.application = 1, .infrastructure = 2};
  status.attempts_without_progress = 7;
  status.restart_not_before = time(40) + std::chrono::milliseconds{250};
  status.avoided_nodes = {"node1"};
  status.worker_image = "worker:cpu";
  status.start_time = time(0);
  status.completion_time = time(99);
  status.attempts = {{.number = 1,
                      .start = time(1),
                      .end = time(30),
                      .cause = Cause::infrastructure,
                      .rank = 1,
                      .pod = "a-abcd-1-1",
                      .node = "node1",
                      .exit_code = 137,
                      .message = "node1 became unreachable"}};
  status.conditions = {{.type = "Training",
                        .is_true = true,
                        .reason = "FirstStep",
                        .message = "the first step is done",
                        .last_transition = time(42),
                        .observed_generation = 6}};
  return status;
}

}  // namespace trainyard::api
