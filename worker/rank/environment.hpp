#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

/// The only door to the process's environment: what reads settings takes a lookup, so that tests give a table.
namespace trainyard::rank {

/// The variable's value; empty where it is not set. A variable set to "" counts as not set, as Kubernetes cannot unset
/// one.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// How a program's own log is written, "text" or "json"; each has its default.
inline constexpr std::string_view env_log_format = "TRAINYARD_LOG_FORMAT";

/// The environment of this process. Not to be called while another thread sets variables.
[[nodiscard]] Environment process_environment();

}  // namespace trainyard::rank
