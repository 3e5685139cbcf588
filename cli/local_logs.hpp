#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "cli/logs.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

/// Gives `print` what a rank wrote in the newest run of `folder`: in the attempt that `options` name, else the newest.
/// Following goes on to the run's end, from attempt to attempt where none is named, and waits for a log that is not
/// there yet. ErrorKind::not_found says what there is instead.
[[nodiscard]] Result<void> print_local_logs(const LogsOptions& options, const std::filesystem::path& folder,
                                            const std::function<void(std::string_view)>& print);

}  // namespace trainyard::cli
