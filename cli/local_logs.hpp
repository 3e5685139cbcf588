#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "cli/logs.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

/// Passes to `print` what a rank wrote in the newest run of `folder`, in the attempt that `options` name or else in the
/// newest. Following continues until the run ends, through all attempts if none is named, and waits for a log that does
/// not exist yet. The message of ErrorKind::not_found lists what exists.
[[nodiscard]] Result<void> print_local_logs(const LogsOptions& options, const std::filesystem::path& folder,
                                            const std::function<void(std::string_view)>& print);

}  // namespace trainyard::cli
