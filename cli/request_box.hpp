#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "api/training_job.hpp"
#include "common/result.hpp"
#include "storage/file_store.hpp"

namespace trainyard::cli {

/// How one process asks a `trainyard run` of another for a checkpoint: files in the run's folder, each there whole or
/// not at all. The answer's file takes the place of the request's. Errors are those of storage::FileStore.
class RequestBox {
 public:
  explicit RequestBox(const std::filesystem::path& run_folder);

  // ---- Whoever asks
  [[nodiscard]] Result<void> put(const std::string& id);
  /// After an error the run may still take the request up.
  [[nodiscard]] Result<void> withdraw(const std::string& id);
  /// The answer, where there is one, which is then gone from the box.
  [[nodiscard]] Result<std::optional<api::CheckpointRequest>> take_answer(const std::string& id);

  // ---- The run
  /// Throws away what was meant for an earlier run.
  [[nodiscard]] Result<void> clear();
  /// The first of the ids that wait, in their order as texts.
  [[nodiscard]] Result<std::optional<std::string>> next();
  /// After an error next() may give the request again.
  [[nodiscard]] Result<void> answer(const api::CheckpointRequest& answer);

 private:
  std::string folder_;
  storage::FileStore files_;
};

}  // namespace trainyard::cli
