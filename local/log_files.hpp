#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

/// The log files of pods.
namespace trainyard::local {

/// The streams of a program that a file holds.
enum class LogStream { both, output, error };

/// `<folder>/attempt-<a>/rank-<r>.log`; of one stream alone `rank-<r>.stdout.log` or `.stderr.log`.
[[nodiscard]] std::filesystem::path rank_log(const std::filesystem::path& folder, std::int64_t attempt,
                                             std::int64_t rank, LogStream stream = LogStream::both);

/// The log of a container of `pod`, whose labels name attempt and rank. A side container's name comes before ".log". A
/// pod without these labels has its own name in place of "attempt-<a>/rank-<r>".
[[nodiscard]] std::filesystem::path container_log(const std::filesystem::path& folder, const nlohmann::json& pod,
                                                  std::string_view container, LogStream stream = LogStream::both);

}  // namespace trainyard::local
