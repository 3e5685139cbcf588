#include "cli/request_box.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "operator/plan/checkpoint_request.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* request_suffix = ".request";
constexpr const char* answer_suffix = ".answer";

Result<void> write_whole(const fs::path& file, const std::string& text) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const fs::path fresh = file.string() + ".new";
  {
    std::ofstream stream{fresh, std::ios::binary | std::ios::trunc};
    stream << text;
    stream.flush();
    if (!stream) return fail(ErrorKind::io, fmt::format("cannot write {}: {}", fresh.string(), std::strerror(errno)));
  }
  fs::rename(fresh, file, error);
  if (error) return fail(ErrorKind::io, fmt::format("cannot write {}: {}", file.string(), error.message()));
  return {};
}

}  // namespace

Result<void> RequestBox::put(const std::string& id) const {
  return write_whole(folder_ / (id + request_suffix), "");
}

void RequestBox::withdraw(const std::string& id) const {
  std::error_code error;
  fs::remove(folder_ / (id + request_suffix), error);
  fs::remove(folder_ / (id + answer_suffix), error);
}

std::optional<resource::CheckpointRequest> RequestBox::take_answer(const std::string& id) const {
  const fs::path file = folder_ / (id + answer_suffix);
  std::ifstream stream{file, std::ios::binary};
  if (!stream) return std::nullopt;
  const auto object = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  const auto status = resource::parse_status(object.is_object() ? object : nlohmann::json::object());
  withdraw(id);
  if (status && status->checkpoint_request) return status->checkpoint_request;
  return resource::CheckpointRequest{
      .id = id, .state = resource::RequestState::failed, .message = fmt::format("{} is damaged", file.string())};
}

void RequestBox::clear() const {
  std::error_code error;
  fs::remove_all(folder_, error);
}

std::optional<std::string> RequestBox::next() const {
  std::optional<std::string> first;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder_, error}) {
    std::string id = entry.path().stem();
    if (entry.path().extension() != request_suffix || !plan::is_request_id(id)) continue;
    if (!first || id < *first) first = std::move(id);
  }
  return first;
}

Result<void> RequestBox::answer(const resource::CheckpointRequest& answer) const {
  resource::TrainingJobStatus status;
  status.checkpoint_request = answer;
  if (auto written = write_whole(folder_ / (answer.id + answer_suffix), resource::to_json(status).dump()); !written) {
    return written;
  }
  std::error_code error;
  fs::remove(folder_ / (answer.id + request_suffix), error);
  return {};
}

}  // namespace trainyard::cli
