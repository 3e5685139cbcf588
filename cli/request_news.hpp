#pragma once

#include <string>

#include "api/training_job.hpp"

namespace trainyard::cli {

/// How a checkpoint that was asked for stands.
struct RequestNews {
  enum class State { waiting, saved, failed };
  State state = State::waiting;
  std::string sentence;  ///< "step 1200 saved: URI", why it failed, or what it waits for.
  bool operator==(const RequestNews&) const = default;
};

[[nodiscard]] RequestNews request_news(const api::CheckpointRequest& request);
/// Of the request `id` of `job`, whose annotation it was.
[[nodiscard]] RequestNews request_news(const api::TrainingJob& job, const std::string& id);

}  // namespace trainyard::cli
