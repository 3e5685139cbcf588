#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "api/training_job.hpp"
#include "common/result.hpp"
#include "storage/file_store.hpp"

namespace trainyard::cli {

/// Requests for checkpoints from other processes to a `trainyard run`: files in the run's folder, each written
/// atomically. An answer's file replaces the request's file. Errors are those of storage::FileStore.
class RequestBox {
 public:
  explicit RequestBox(const std::filesystem::path& run_folder);

  // ---- For the process that asks
  [[nodiscard]] Result<void> put(const std::string& id);
  /// Removes the request. After an error the run may still answer it.
  [[nodiscard]] Result<void> withdraw(const std::string& id);
  /// Removes and returns the answer; empty: there is none yet.
  [[nodiscard]] Result<std::optional<api::CheckpointRequest>> take_answer(const std::string& id);

  // ---- For the run
  /// Removes the requests to earlier runs, and their answers.
  [[nodiscard]] Result<void> clear();
  /// The lexicographically first id that has no answer; empty: there is none.
  [[nodiscard]] Result<std::optional<std::string>> next();
  /// After an error, next() may return the request again.
  [[nodiscard]] Result<void> answer(const api::CheckpointRequest& answer);

 private:
  std::string folder_;
  storage::FileStore files_;
};

}  // namespace trainyard::cli
