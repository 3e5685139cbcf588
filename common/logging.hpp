#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

/// Log lines are a constant message and fields. Keys are the same everywhere: job, attempt, pod, rank, step, error, ...
/// info: a state changed. warn: it will be retried. error: gave up. Never a secret, never a whole object.
/// Any thread may log.
namespace trainyard::logging {

using Field = std::pair<std::string_view, nlohmann::json>;
using Fields = std::initializer_list<Field>;

enum class Format {
  json,  ///< One JSON object a line, for programs in pods.
  text,  ///< "12:00:01.234 warn  message  key=value", for people at a terminal.
};
enum class Level { debug, info, warn, error };

/// Sets the format and the lowest level of this process's log, which goes to standard error. main calls it once, before
/// threads start. Without a call the log is text from info on.
void set_up(Format format, Level level);

void debug(std::string_view message, Fields fields = {});
void info(std::string_view message, Fields fields = {});
void warn(std::string_view message, Fields fields = {});
void error(std::string_view message, Fields fields = {});

/// The line that a call writes, without the line end. Pure; for tests.
[[nodiscard]] std::string format_line(Format format, Level level, std::string_view time, std::string_view message,
                                      Fields fields);

}  // namespace trainyard::logging
