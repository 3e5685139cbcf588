#include "worker/logs/file_format.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "checkpoint/snapshot/picture.hpp"
#include "common/logging.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"
#include "worker/logs/record.hpp"

namespace trainyard::logs {
namespace {

// Field numbers of the messages.
namespace event {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace session_log {
constexpr int status = 1;
constexpr std::uint64_t status_start = 1;
}  // namespace session_log
namespace summary {
constexpr int value = 1;
}
namespace summary_value {
constexpr int tag = 1, simple_value = 2, image = 4;
}
namespace summary_image {
constexpr int height = 1, width = 2, colorspace = 3, encoded_image_string = 4;
}

/// Builds a protocol buffer.
class Message {
 public:
  Message& add_integer(int field, std::uint64_t number) {
    add_varint(key_of(field, wire_varint));
    add_varint(number);
    return *this;
  }
  Message& add_double(int field, double number) {
    add_varint(key_of(field, wire_fixed64));
    add_little_endian(std::bit_cast<std::uint64_t>(number));
    return *this;
  }
  Message& add_float(int field, float number) {
    add_varint(key_of(field, wire_fixed32));
    add_little_endian(std::bit_cast<std::uint32_t>(number));
    return *this;
  }
  Message& add_bytes(int field, std::string_view bytes) {
    add_varint(key_of(field, wire_bytes));
    add_varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  static constexpr std::uint64_t wire_varint = 0, wire_fixed64 = 1, wire_bytes = 2, wire_fixed32 = 5;

  static std::uint64_t key_of(int field, std::uint64_t wire_type) {
    return static_cast<std::uint64_t>(field) << 3U | wire_type;
  }
  void add_varint(std::uint64_t number) {
    for (; number >= 0x80U; number >>= 7U) bytes_ += static_cast<char>((number & 0x7fU) | 0x80U);
    bytes_ += static_cast<char>(number);
  }
  template <typename T>
  void add_little_endian(T number) {
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_ += static_cast<char>(number >> (8U * i) & 0xffU);
  }

  std::string bytes_;
};

Message event_at(Time time) {
  Message message;
  message.add_double(event::wall_time, std::chrono::duration<double>{time.time_since_epoch()}.count());
  return message;
}

void add_little_endian(std::string& bytes, std::uint64_t number, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(number >> (8U * i) & 0xffU);
}

// The format masks its checksums, because checksums of data that contain checksums are weak.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(storage::crc32c(bytes), 15) + 0xa282ead8U;
}

std::string tag_of(const Record& record, std::string_view name) {
  // TensorBoard has one curve for each tag: a model may log one name in training and in validation.
  const bool is_of_steps = record.over == snapshot::Over::steps;
  return is_of_steps ? to_utf8(name) : fmt::format("{}/{}", snapshot::to_string(record.over), to_utf8(name));
}

}  // namespace

std::string to_record(std::string_view data) {
  std::string bytes;
  add_little_endian(bytes, data.size(), sizeof(std::uint64_t));
  add_little_endian(bytes, masked_crc(bytes), sizeof(std::uint32_t));
  bytes += data;
  add_little_endian(bytes, masked_crc(data), sizeof(std::uint32_t));
  return bytes;
}

std::string event_file_version(Time time) {
  return to_record(event_at(time).add_bytes(event::file_version, "brain.Event:2").bytes());
}

std::string event_of(const Start& start) {
  const std::string log = Message{}.add_integer(session_log::status, session_log::status_start).bytes();
  return to_record(event_at(start.time)
                       .add_integer(event::step, static_cast<std::uint64_t>(start.step) + 1)
                       .add_bytes(event::session_log, log)
                       .bytes());
}

std::string event_of_values(const Record& record) {
  Message values;
  for (const auto& [name, value] : record.values) {
    values.add_bytes(summary::value, Message{}
                                         .add_bytes(summary_value::tag, tag_of(record, name))
                                         .add_float(summary_value::simple_value, static_cast<float>(value))
                                         .bytes());
  }
  return to_record(event_at(record.time)
                       .add_integer(event::step, static_cast<std::uint64_t>(record.step))
                       .add_bytes(event::summary, values.bytes())
                       .bytes());
}

Result<std::string> event_of_image(const snapshot::UnencodedImage& image, Time time) {
  const snapshot::Picture picture = snapshot::lay_out(image.planes);
  const auto png = TRY(snapshot::encode_png(picture));
  const std::string encoded = Message{}
                                  .add_integer(summary_image::height, static_cast<std::uint64_t>(picture.height))
                                  .add_integer(summary_image::width, static_cast<std::uint64_t>(picture.width))
                                  .add_integer(summary_image::colorspace, static_cast<std::uint64_t>(picture.channels))
                                  .add_bytes(summary_image::encoded_image_string, png)
                                  .bytes();
  const std::string value =
      Message{}.add_bytes(summary_value::tag, to_utf8(image.name)).add_bytes(summary_value::image, encoded).bytes();
  const std::string values = Message{}.add_bytes(summary::value, value).bytes();
  return to_record(event_at(time)
                       .add_integer(event::step, static_cast<std::uint64_t>(image.step))
                       .add_bytes(event::summary, values)
                       .bytes());
}

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
