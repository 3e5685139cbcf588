#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/interchange/catalogue.hpp"
#include "common/result.hpp"

/// What `trainyard run` says before it starts a job whose training has ended already.
namespace trainyard::cli {

/// One line that says that nothing is left to train, and how to start afresh. Empty: the job trains. `job` has its
/// defaults; `newest` is the checkpoint that a restore would pick, or nullptr. `has_default_folder`: the checkpoints
/// are in the run's own folder, so that --dir names others. Pure.
[[nodiscard]] std::string nothing_left_line(const nlohmann::json& job, const checkpoint::Listed* newest,
                                            bool has_default_folder);

/// As above, for what lies under the job's checkpoint.uri now. Looks only at folders of this machine; empty for other
/// storage, whose credentials the ranks have. Errors are those of the folder and of parse_training_job().
[[nodiscard]] Result<std::string> look_for_end(const nlohmann::json& job, const std::string& default_folder);

}  // namespace trainyard::cli
