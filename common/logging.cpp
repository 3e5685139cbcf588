#include "common/logging.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

#include "common/clock.hpp"
#include "common/time_text.hpp"

namespace trainyard::logging {
namespace {

std::atomic<Format> process_format{Format::text};

std::string_view to_string(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warn:
      return "warn";
    case Level::error:
      return "error";
  }
  return "";
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  // format_line() makes the lines; spdlog gives the locked sink and the levels.
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = std::make_shared<spdlog::logger>("trainyard", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("%v");
    created->flush_on(spdlog::level::debug);
    return created;
  }();
  return *instance;
}

void write(Level level, std::string_view message, Fields fields) {
  if (!logger().should_log(to_spdlog(level))) return;
  const std::string time = format_rfc3339_micro(SystemClock{}.now());
  logger().log(to_spdlog(level), spdlog::string_view_t{format_line(process_format, level, time, message, fields)});
}

}  // namespace

void set_up(Format format, Level level) {
  process_format = format;
  logger().set_level(to_spdlog(level));
}

std::string format_line(Format format, Level level, std::string_view time, std::string_view message, Fields fields) {
  if (format == Format::json) {
    nlohmann::ordered_json line{{"time", time}, {"level", to_string(level)}, {"message", message}};
    for (const auto& [key, value] : fields) line[std::string{key}] = value;
    // Invalid UTF-8 (of a program's output, a server's body) must not end the process that logs it.
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::string line = fmt::format("{} {:5} {}", time.substr(11, 12), to_string(level), message);
  for (const auto& [key, value] : fields) {
    line += fmt::format("  {}={}", key,
                        value.is_string() ? value.get<std::string>()
                                          : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return line;
}

void debug(std::string_view message, Fields fields) {
  write(Level::debug, message, fields);
}
void info(std::string_view message, Fields fields) {
  write(Level::info, message, fields);
}
void warn(std::string_view message, Fields fields) {
  write(Level::warn, message, fields);
}
void error(std::string_view message, Fields fields) {
  write(Level::error, message, fields);
}

}  // namespace trainyard::logging
