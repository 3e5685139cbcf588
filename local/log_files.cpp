#include "local/log_files.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/contract.hpp"

namespace trainyard::local {
namespace {

using nlohmann::json;

std::string label_of(const json& pod, std::string_view label) {
  return pod.value("/metadata/labels"_json_pointer, json::object()).value(std::string{label}, "");
}

std::string_view ending(LogStream stream) {
  switch (stream) {
    case LogStream::both:
      return ".log";
    case LogStream::output:
      return ".stdout.log";
    case LogStream::error:
      return ".stderr.log";
  }
  return "";
}

}  // namespace

std::filesystem::path rank_log(const std::filesystem::path& folder, std::int64_t attempt, std::int64_t rank,
                               LogStream stream) {
  return folder / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}{}", rank, ending(stream));
}

std::filesystem::path container_log(const std::filesystem::path& folder, const json& pod, std::string_view container,
                                    LogStream stream) {
  const std::string attempt = label_of(pod, contract::label_attempt);
  const std::string rank = label_of(pod, contract::label_rank);
  const json containers = pod.at("spec").value("containers", json::array());
  const bool is_worker = container == contract::worker_container ||
                         (containers.size() == 1 && containers[0].value("name", "") == container);
  const std::string side = is_worker ? "" : fmt::format(".{}", container);
  if (attempt.empty() || rank.empty()) {
    return folder / fmt::format("{}{}{}", pod.at("metadata").value("name", ""), side, ending(stream));
  }
  return folder / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}{}{}", rank, side, ending(stream));
}

}  // namespace trainyard::local
