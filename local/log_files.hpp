#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
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

/// last_words() reads only this much of a log's end.
inline constexpr std::size_t last_words_bytes_max = 16'384;

/// One line on why a program failed, from the end of its log: the exception of a Python traceback that ends the log,
/// else the last three lines. Escape sequences and control characters are removed. A line that a progress bar rewrote
/// is kept in its last form. Bytes that are not UTF-8 become '?'. At most 1024 bytes; empty if `log` has no text.
[[nodiscard]] std::string last_words(std::string_view log);

}  // namespace trainyard::local
