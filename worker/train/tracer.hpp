#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <thread>

#include "api/training_spec.hpp"
#include "common/clock.hpp"
#include "worker/train/log_files.hpp"

namespace trainyard::train {

/// The key of a rank's trace in the folder of log files. `began`: the attempt's beginning, which keeps the traces of
/// different jobs in one folder apart.
[[nodiscard]] std::string trace_key(Time began, std::int64_t attempt, std::int64_t rank);

/// Records what this rank does in some steps (training.profile), by torch's profiler, and puts the trace into a store
/// in the background. A failure is logged and never ends training. Used from the training thread.
class Tracer {
 public:
  /// On a GPU of `device` its kernels are recorded too.
  Tracer(LogPlace place, std::string key, const api::ProfileSpec& profile, torch::Device device);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  /// Waits until the trace is stored, or has failed.
  ~Tracer() = default;

  /// To be called before and after each step.
  void before_step();
  void after_step();

  /// Ends the recording, if there is one: before what would make the trace too large, such as a validation. On a GPU it
  /// waits for the device.
  void end_recording();
  /// Ends the recording, and then waits up to `timeout` until the trace is stored or has failed. True when nothing is
  /// left to do.
  [[nodiscard]] bool finish(std::chrono::milliseconds timeout);

 private:
  void start();
  void stop();

  const std::string key_;
  const api::ProfileSpec profile_;
  const torch::Device device_;
  LogPlace place_;          // From stop() on only the thread uses it.
  std::int64_t steps_ = 0;  // Steps of this attempt.
  bool is_recording_ = false;
  std::future<void> stored_;  // Valid from stop() on.
  std::jthread thread_;
};

}  // namespace trainyard::train
