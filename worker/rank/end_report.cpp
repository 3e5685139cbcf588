#include "worker/rank/end_report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "api/contract.hpp"
#include "common/text.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::rank {
namespace {

constexpr std::size_t reason_bytes_max = 64;
constexpr std::size_t uri_bytes_max = 1024;
// A message this short fits beside every other field but the progress, even if each of its bytes is escaped.
constexpr std::size_t message_bytes_min = 256;

std::string with_message(nlohmann::json object, std::string_view message, std::size_t message_bytes) {
  object["message"] = keep_beginning(message, message_bytes);
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The fields of `progress` that still apply once the rank has ended.
nlohmann::json last_progress(RankProgress progress) {
  progress.waiting_for.clear();
  progress.eta_seconds.reset();
  progress.checkpoint_error.clear();
  // The sentence in `message` needs the room more than such a long URI does.
  if (progress.checkpoint && progress.checkpoint->uri.size() > uri_bytes_max) progress.checkpoint.reset();
  if (auto& record = progress.checkpoint_request; record && record->uri.size() > uri_bytes_max) record->uri.clear();
  return to_json(progress);
}

}  // namespace

std::string make_termination_message(const RankEnd& end, const std::optional<std::int64_t>& rank,
                                     const std::optional<RankProgress>& progress) {
  nlohmann::json object{{"reason", keep_beginning(end.reason, reason_bytes_max)}, {"exitCode", end.exit_code}};
  if (rank) object["rank"] = *rank;
  if (progress) object["progress"] = last_progress(*progress);
  if (end.culprit) object["culprit"] = *end.culprit;
  if (end.culprit_exit_code) object["culpritExitCode"] = *end.culprit_exit_code;
  // Escapes make the JSON text longer than the message. The message is shortened until all fits, and the progress is
  // dropped before the message gets shorter than message_bytes_min.
  std::size_t message_bytes = contract::termination_message_bytes_max;
  std::string text = with_message(object, end.message, message_bytes);
  while (text.size() > contract::termination_message_bytes_max) {
    if (message_bytes == message_bytes_min) object.erase("progress");
    message_bytes = std::max(message_bytes_min, message_bytes * 3 / 4);
    text = with_message(object, end.message, message_bytes);
  }
  return text;
}

Result<void> write_termination_message(const Environment& environment, const std::string& message) {
  const auto asked = environment(contract::env_termination_log);
  const std::string path = asked.value_or(std::string{contract::default_termination_log});
  if (!asked && !std::filesystem::exists(path)) return {};
  std::ofstream file{path, std::ios::trunc};
  file << message << std::flush;
  if (!file) return fail(ErrorKind::io, "writing the termination message to " + path + " failed");
  return {};
}

std::string make_error_file(const RankEnd& end, Time time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  const nlohmann::json object{{"message",
                               {{"message", fmt::format("{}: {}", end.reason, end.message)},
                                {"errorCode", end.exit_code},
                                {"extraInfo", {{"timestamp", std::to_string(seconds)}}}}}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<void> write_error_file(const Environment& environment, const RankEnd& end, Time time) {
  const auto path = environment(env_elastic_error_file);
  if (!path || end.exit_code == contract::exit_success) return {};
  std::ofstream file{*path, std::ios::trunc};
  file << make_error_file(end, time) << std::flush;
  if (!file) return fail(ErrorKind::io, fmt::format("writing torchrun's error file {} failed", *path));
  return {};
}

}  // namespace trainyard::rank
