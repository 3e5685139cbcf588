#include "worker/logs/file_format.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/logging.hpp"
#include "common/rfc3339.hpp"
#include "worker/logs/event_file.hpp"
#include "worker/logs/utf8.hpp"

namespace trainyard::logs {
namespace {

using api::LogFile;
using nlohmann::ordered_json;

constexpr std::string_view kind_start = "start";

ordered_json json_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string csv_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{}", value);
}

/// RFC 4180: quoted where the text would otherwise be read as more than one field or line.
std::string csv_of(std::string_view text) {
  const std::string valid = to_utf8(text);
  if (valid.find_first_of(",\"\r\n") == std::string::npos) return valid;
  std::string quoted = "\"";
  for (const char c : valid) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string json_line(const Record& record) {
  ordered_json metrics = ordered_json::object();
  for (const auto& [name, value] : record.values) metrics[to_utf8(name)] = json_of(value);
  return ordered_json{{"attempt", record.attempt},
                      {"step", record.step},
                      {"epoch", record.epoch},
                      {"time", format_rfc3339_micro(record.time)},
                      {"kind", snapshot::to_string(record.over)},
                      {"metrics", metrics}}
             .dump() +
         "\n";
}

std::string json_line(const Start& start) {
  return ordered_json{{"attempt", start.attempt}, {"step", start.step},
                      {"epoch", start.epoch},     {"time", format_rfc3339_micro(start.time)},
                      {"kind", kind_start},       {"metrics", ordered_json::object()}}
             .dump() +
         "\n";
}

std::string csv_lines(const Record& record) {
  std::string lines;
  for (const auto& [name, value] : record.values) {
    lines +=
        fmt::format("{},{},{},{},{},{},{}\n", record.attempt, record.step, record.epoch,
                    snapshot::to_string(record.over), csv_of(name), csv_of(value), format_rfc3339_micro(record.time));
  }
  return lines;
}

std::string csv_line(const Start& start) {
  return fmt::format("{},{},{},{},,,{}\n", start.attempt, start.step, start.epoch, kind_start,
                     format_rfc3339_micro(start.time));
}

std::string events_of(const Record& record) {
  std::string events = record.values.empty() ? std::string{} : event_of_values(record);
  for (const snapshot::UnencodedImage& image : record.images) {
    if (const auto event = event_of_image(image, record.time)) {
      events += *event;
    } else {
      logging::warn("an image is left out of the log files",
                    {{"image", image.name}, {"step", image.step}, {"error", event.error().message}});
    }
  }
  return events;
}

}  // namespace

std::string key_of(LogFile file, const PartName& name) {
  // In microseconds, so that two jobs of one folder have files of their own.
  const auto began = std::chrono::floor<std::chrono::microseconds>(name.run_began).time_since_epoch().count();
  const std::string part = fmt::format("{:016d}.{:04d}-{:06d}", began, name.attempt, name.part);
  if (file == LogFile::tensorboard) return fmt::format("events.out.tfevents.{}", part);
  return fmt::format("metrics.{}.{}", part, file == LogFile::csv ? "csv" : "jsonl");
}

std::string header_of(LogFile file, Time time) {
  if (file == LogFile::tensorboard) return event_file_version(time);
  return file == LogFile::csv ? "attempt,step,epoch,kind,name,value,time\n" : "";
}

std::string encode(LogFile file, const Start& start) {
  if (file == LogFile::tensorboard) return event_of(start);
  return file == LogFile::csv ? csv_line(start) : json_line(start);
}

std::string encode(LogFile file, const Record& record) {
  if (file == LogFile::tensorboard) return events_of(record);
  if (record.values.empty()) return {};
  return file == LogFile::csv ? csv_lines(record) : json_line(record);
}

}  // namespace trainyard::logs
