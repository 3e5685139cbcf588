#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

/// Where the output of pods is kept.
namespace trainyard::local {

/// Which of a program's streams a file holds.
enum class LogStream { both, output, error };

/// `<folder>/attempt-<a>/rank-<r>.log`; of one stream alone `rank-<r>.stdout.log` or `.stderr.log`.
[[nodiscard]] std::filesystem::path rank_log(const std::filesystem::path& folder, std::int64_t attempt,
                                             std::int64_t rank, LogStream stream = LogStream::both);

/// The log of a container of `pod`, whose labels name attempt and rank. A side container's name stands before ".log"; a
/// pod that is no job's has its own name instead of "rank-<r>".
[[nodiscard]] std::filesystem::path container_log(const std::filesystem::path& folder, const nlohmann::json& pod,
                                                  std::string_view container, LogStream stream = LogStream::both);

}  // namespace trainyard::local
