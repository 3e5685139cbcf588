#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/interchange/catalogue.hpp"

/// The note of `trainyard run` on a job whose training has already ended.
namespace trainyard::cli {

/// A line that says that nothing is left to train, and how to start afresh; empty if there is something to train. `job`
/// has its defaults filled in. `newest` is the checkpoint that a restore would pick, or nullptr. `has_default_folder`:
/// the checkpoints are in the run's own folder, so another --dir has others. Pure.
[[nodiscard]] std::string nothing_left_line(const nlohmann::json& job, const checkpoint::Listed* newest,
                                            bool has_default_folder);

/// nothing_left_line() for the checkpoints under the job's checkpoint.uri. Reads only folders of this machine; empty
/// for other storage, since only the ranks have its credentials. Empty too when the folder cannot be read: the ranks
/// read it next, try again, and report what stays wrong.
[[nodiscard]] std::string read_nothing_left_line(const nlohmann::json& job, const std::string& default_folder);

}  // namespace trainyard::cli
