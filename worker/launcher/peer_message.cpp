#include "worker/launcher/peer_message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/check.hpp"
#include "common/text.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

constexpr std::size_t frame_header_bytes = 4;
constexpr std::size_t message_bytes_max =
    frame_bytes_max / 8;                 // An escaped byte takes up to six, and the rest needs room.
constexpr std::size_t missing_max = 32;  // A sentence names fewer; the hub knows all.

/// Bounded when it is sent and when it is received.
std::string name_of_collective(const std::string& name) {
  return keep_beginning(name, rank::collective_bytes_max);
}

json to_json(const Hello& hello) {
  return {{"type", "hello"},
          {"job", hello.job},
          {"jobUid", hello.job_uid},
          {"attempt", hello.attempt},
          {"worldSize", hello.world_size},
          {"firstRank", hello.first_rank},
          {"rankCount", hello.rank_count}};
}
json to_json(const Welcome& /*welcome*/) {
  return {{"type", "welcome"}};
}
json to_json(const Refusal& refusal) {
  return {{"type", "refusal"},
          {"jobUid", refusal.job_uid},
          {"attempt", refusal.attempt},
          {"message", keep_beginning(refusal.message, message_bytes_max)}};
}
json to_json(const PeerBeat& beat) {
  const auto end = beat.missing.begin() + static_cast<std::ptrdiff_t>(std::min(beat.missing.size(), missing_max));
  json object{{"type", "beat"}, {"missing", std::vector<std::int64_t>(beat.missing.begin(), end)}};
  for (const LongWait& wait : beat.long_waits) {
    object["longWaits"].push_back(
        {{"collective", name_of_collective(wait.collective)}, {"ranks", wait.ranks}, {"firstRank", wait.first_rank}});
  }
  return object;
}
json to_json(const FailureReport& report) {
  json object{{"type", "failure"},
              {"exitCode", report.failure.exit_code},
              {"reason", keep_beginning(report.failure.reason, 64)},
              {"message", keep_beginning(report.failure.message, message_bytes_max)}};
  if (report.failure.culprit) object["culprit"] = *report.failure.culprit;
  return object;
}
json to_json(const Done& /*done*/) {
  return {{"type", "done"}};
}

PeerMessage from_json(const json& object, const std::string& type) {
  if (type == "hello") {
    return Hello{.job = object.at("job").get<std::string>(),
                 .job_uid = object.at("jobUid").get<std::string>(),
                 .attempt = object.at("attempt").get<std::int64_t>(),
                 .world_size = object.at("worldSize").get<std::int64_t>(),
                 .first_rank = object.at("firstRank").get<std::int64_t>(),
                 .rank_count = object.at("rankCount").get<std::int64_t>()};
  }
  if (type == "refusal") {
    return Refusal{.job_uid = object.at("jobUid").get<std::string>(),
                   .attempt = object.at("attempt").get<std::int64_t>(),
                   .message = object.at("message").get<std::string>()};
  }
  if (type == "beat") {
    PeerBeat beat{.missing = object.at("missing").get<std::vector<std::int64_t>>(), .long_waits = {}};
    for (const json& wait : object.value("longWaits", json::array())) {
      if (beat.long_waits.size() == long_waits_max) break;
      beat.long_waits.push_back({.collective = name_of_collective(wait.at("collective").get<std::string>()),
                                 .ranks = wait.at("ranks").get<std::int64_t>(),
                                 .first_rank = wait.at("firstRank").get<std::int64_t>()});
    }
    return beat;
  }
  if (type == "failure") {
    GroupFailure failure{.culprit = {},
                         .exit_code = object.at("exitCode").get<int>(),
                         .reason = object.at("reason").get<std::string>(),
                         .message = object.at("message").get<std::string>()};
    if (object.contains("culprit")) failure.culprit = object.at("culprit").get<std::int64_t>();
    return FailureReport{std::move(failure)};
  }
  if (type == "done") return Done{};
  return Welcome{};
}

bool is_known(const std::string& type) {
  constexpr std::array<std::string_view, 6> types{"hello", "welcome", "refusal", "beat", "failure", "done"};
  return std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace

std::string encode(const PeerMessage& message) {
  const json object = std::visit([](const auto& alternative) { return to_json(alternative); }, message);
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<PeerMessage> decode_peer_message(std::string_view payload) {
  try {
    const json object = json::parse(payload);
    const auto type = object.at("type").get<std::string>();
    if (!is_known(type)) return fail(ErrorKind::invalid, "a launcher's message has the unknown type '" + type + "'");
    return from_json(object, type);
  } catch (const json::exception& error) {
    return fail(ErrorKind::invalid, std::string{"a launcher's message is malformed: "} + error.what());
  }
}

std::string make_frame(std::string_view payload) {
  check(payload.size() <= frame_bytes_max, "a message fits into a frame");
  std::string frame;
  frame.reserve(frame_header_bytes + payload.size());
  for (int shift = 24; shift >= 0; shift -= 8)
    frame.push_back(static_cast<char>((payload.size() >> static_cast<unsigned>(shift)) & 0xFFU));
  frame += payload;
  return frame;
}

Result<std::vector<std::string>> FrameReader::feed(std::string_view bytes) {
  rest_ += bytes;
  std::vector<std::string> payloads;
  std::size_t position = 0;
  while (rest_.size() - position >= frame_header_bytes) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < frame_header_bytes; ++i)
      size = size << 8U | static_cast<unsigned char>(rest_[position + i]);
    if (size > frame_bytes_max) {
      return fail(ErrorKind::invalid, fmt::format("a message of {} bytes, but {} are the most", size, frame_bytes_max));
    }
    if (rest_.size() - position - frame_header_bytes < size) break;
    payloads.push_back(rest_.substr(position + frame_header_bytes, size));
    position += frame_header_bytes + size;
  }
  rest_.erase(0, position);
  return payloads;
}

}  // namespace trainyard::launcher
