#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/volume_map.hpp"
#include "common/result.hpp"
#include "local/process_kubelet.hpp"

namespace trainyard::cli {

/// A TrainingJob as it can run on this machine, and what of it had to become other than it is written.
struct LocalJob {
  nlohmann::json object;
  std::vector<std::string> notes;  ///< One sentence each.
};

/// `job` (valid, defaults filled in) with folders for claims, no GPUs where there are none, and checkpoints below
/// `checkpoint_folder` where training would otherwise keep none.
/// ErrorKind::not_found names a claim without a folder; invalid says that there are fewer GPUs than the job asks for,
/// or which field has no meaning here.
[[nodiscard]] Result<LocalJob> adapt_to_machine(nlohmann::json job, const ClaimFolders& folders,
                                                const std::vector<std::string>& gpus,
                                                const std::string& checkpoint_folder);

/// Success when the pods of `job` can be started by a kubelet with `options`; otherwise what is missing, and the flag
/// that gives it.
[[nodiscard]] Result<void> check_can_run(const nlohmann::json& job, const local::ProcessKubeletOptions& options);

/// Adds one `--secret NAME=FILE`; the file holds KEY=VALUE lines, empty ones and those that begin with # are passed
/// over. ErrorKind::invalid for another form, io when the file cannot be read. A message never holds a value.
[[nodiscard]] Result<void> add_secret(std::string_view flag, std::map<std::string, local::Variables>& secrets);

}  // namespace trainyard::cli
