#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "api/training_job.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::cli {

/// The newest state of one TrainingJob. Any thread may call.
class JobWatch {
 public:
  /// `api` outlives the watch.
  JobWatch(kube::Api& api, std::string name_space, std::string name);

  /// Returns when the job has changed or after `limit`, whichever comes first.
  void wait(std::chrono::milliseconds limit);
  /// The newest state; empty: no event has come yet.
  [[nodiscard]] std::optional<api::TrainingJob> latest() const;

 private:
  void run(const std::stop_token& stop);

  kube::Api& api_;
  const std::string name_space_;
  const std::string name_;
  mutable std::mutex mutex_;  // guards the two below
  std::optional<api::TrainingJob> latest_;
  bool has_news_ = false;
  std::condition_variable changed_;
  std::jthread thread_;  // Last: joins before the rest dies.
};

}  // namespace trainyard::cli
