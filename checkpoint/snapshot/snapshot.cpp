#include "checkpoint/snapshot/snapshot.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/format/sealed_json.hpp"
#include "common/text.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"

namespace trainyard::snapshot {
namespace {

using nlohmann::json;

constexpr std::string_view format_name = "trainyard-snapshot";
constexpr std::int64_t format_version = 1;

constexpr std::array<std::pair<Over, std::string_view>, 3> over_names = {
    {{Over::steps, "steps"}, {Over::epoch, "epoch"}, {Over::validation, "validation"}}};

// Throws nlohmann's own exception, as nlohmann's accessors do.
Over read_over(const json& name) {
  for (const auto& [over, text] : over_names) {
    if (name == text) return over;
  }
  throw json::other_error::create(501, fmt::format("nothing is taken over {}", name.dump()), &name);
}

// JSON has no infinite numbers and no NaN.
json number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

double read_number(const json& value) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return infinity;
  return value == "-inf" ? -infinity : value.get<double>();
}

json to_json(const Point& point) {
  return {{"name", point.name}, {"over", to_string(point.over)}, {"step", point.step}, {"value", number(point.value)}};
}

Point read_point(const json& object) {
  return {.name = object.at("name").get<std::string>(),
          .over = read_over(object.at("over")),
          .step = object.at("step").get<std::int64_t>(),
          .value = read_number(object.at("value"))};
}

json to_json(const Image& image) {
  return {{"name", image.name},
          {"step", image.step},
          {"width", image.width},
          {"height", image.height},
          {"png", encode_base64(image.png)}};
}

Image read_image(const json& object) {
  const auto& text = object.at("png");
  auto png = decode_base64(text.get_ref<const std::string&>());
  if (!png) throw json::other_error::create(501, "an image's PNG: " + png.error().message, &text);
  return {.name = object.at("name").get<std::string>(),
          .step = object.at("step").get<std::int64_t>(),
          .width = object.at("width").get<std::int64_t>(),
          .height = object.at("height").get<std::int64_t>(),
          .png = std::move(*png)};
}

Time read_time(const json& text) {
  const auto time = parse_rfc3339(text.get_ref<const std::string&>());
  if (!time) throw json::other_error::create(501, time.error().message, &text);
  return *time;
}

Snapshot read_snapshot(const json& object) {
  Snapshot snapshot{
      .id = {.step = object.at("step").get<std::int64_t>(), .generation = object.at("generation").get<std::int64_t>()},
      .epoch = object.at("epoch").get<std::int64_t>(),
      .time = read_time(object.at("time")),
      .attempt = object.at("attempt").get<std::int64_t>(),
      .points = {},
      .dropped_points = object.at("lostMetrics").get<std::int64_t>(),
      .images = {}};
  for (const json& point : object.at("metrics")) snapshot.points.push_back(read_point(point));
  for (const json& image : object.at("images")) snapshot.images.push_back(read_image(image));
  return snapshot;
}

Result<void> check_version(const json& object) {
  if (object.value("format", json{}) != format_name) return fail(ErrorKind::corrupt, "it is no snapshot");
  const auto version =
      TRY(checkpoint::read_fields("a snapshot", [&] { return object.at("version").get<std::int64_t>(); }));
  if (version == format_version) return {};
  return fail(ErrorKind::invalid,
              fmt::format("it is of format version {}, and this program knows version {}", version, format_version));
}

}  // namespace

std::string_view to_string(Over over) {
  for (const auto& [value, text] : over_names) {
    if (value == over) return text;
  }
  return {};
}

std::string to_text(const Snapshot& snapshot) {
  json metrics = json::array();
  for (const Point& point : snapshot.points) metrics.push_back(to_json(point));
  json images = json::array();
  for (const Image& image : snapshot.images) images.push_back(to_json(image));
  return checkpoint::seal({{"format", format_name},
                           {"version", format_version},
                           {"step", snapshot.id.step},
                           {"generation", snapshot.id.generation},
                           {"epoch", snapshot.epoch},
                           {"attempt", snapshot.attempt},
                           {"time", format_rfc3339(snapshot.time)},
                           {"metrics", std::move(metrics)},
                           {"lostMetrics", snapshot.dropped_points},
                           {"images", std::move(images)}});
}

Result<Snapshot> parse_snapshot(std::string_view text) {
  return checkpoint::unseal(text).and_then([](const json& object) {
    return check_version(object).and_then(
        [&] { return checkpoint::read_fields("a snapshot", [&] { return read_snapshot(object); }); });
  });
}

}  // namespace trainyard::snapshot
