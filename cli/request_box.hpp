#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "operator/resource/training_job.hpp"

namespace trainyard::cli {

/// How one process asks a `trainyard run` of another for a checkpoint: files in the run's folder, each there whole or
/// not at all. The answer's file takes the place of the request's.
class RequestBox {
 public:
  explicit RequestBox(const std::filesystem::path& run_folder) : folder_{run_folder / ".requests"} {}

  // ---- Whoever asks
  /// ErrorKind::io when it cannot be written.
  [[nodiscard]] Result<void> put(const std::string& id) const;
  void withdraw(const std::string& id) const;
  /// The answer, which is then gone from the box.
  [[nodiscard]] std::optional<resource::CheckpointRequest> take_answer(const std::string& id) const;

  // ---- The run
  /// Throws away what was meant for an earlier run.
  void clear() const;
  /// The first of the ids that wait, in their order as texts.
  [[nodiscard]] std::optional<std::string> next() const;
  [[nodiscard]] Result<void> answer(const resource::CheckpointRequest& answer) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace trainyard::cli
