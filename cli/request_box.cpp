#include "cli/request_box.hpp"

#include <fmt/format.h>

#include <tuple>

#include "api/request.hpp"
#include "common/try.hpp"
#include "storage/posix.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view request_suffix = ".request";

std::string request_key(const std::string& id) {
  return fmt::format("{}{}", id, request_suffix);
}

std::string answer_key(const std::string& id) {
  return id + ".answer";
}

}  // namespace

RequestBox::RequestBox(const fs::path& run_folder)
    : folder_{fs::absolute(run_folder / ".requests").lexically_normal().string()}, files_{folder_} {}

Result<void> RequestBox::put(const std::string& id) {
  return storage::put_text(files_, request_key(id), "");
}

Result<void> RequestBox::withdraw(const std::string& id) {
  // No request has this id again. If the answer cannot be removed, the next run clears the box.
  std::ignore = files_.remove(answer_key(id));
  return files_.remove(request_key(id));
}

Result<std::optional<api::CheckpointRequest>> RequestBox::take_answer(const std::string& id) {
  const auto text = storage::get_text(files_, answer_key(id));
  if (!text && text.error().kind == ErrorKind::not_found) return std::nullopt;
  TRY(text);
  // Only tidies up: the run has removed the request already.
  std::ignore = withdraw(id);
  const auto object = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto status = api::parse_status(object.is_object() ? object : nlohmann::json::object());
  if (status && status->checkpoint_request) return status->checkpoint_request;
  return fail(ErrorKind::corrupt, fmt::format("{} is damaged", files_.path_of(answer_key(id))));
}

Result<void> RequestBox::clear() {
  std::error_code error;
  fs::remove_all(folder_, error);
  if (error) return tl::unexpected(storage::posix::error_of(error.value(), fmt::format("removing {}", folder_)));
  return {};
}

Result<std::optional<std::string>> RequestBox::next() {
  const auto files = TRY(files_.list(""));
  std::optional<std::string> first;
  for (const auto& [key, bytes] : files) {
    if (!key.ends_with(request_suffix)) continue;
    std::string id = key.substr(0, key.size() - request_suffix.size());
    if (contract::is_request_id(id) && (!first || id < *first)) first = std::move(id);
  }
  return first;
}

Result<void> RequestBox::answer(const api::CheckpointRequest& answer) {
  api::TrainingJobStatus status;
  status.checkpoint_request = answer;
  return storage::put_text(files_, answer_key(answer.id), api::to_json(status).dump()).and_then([&] {
    return files_.remove(request_key(answer.id));
  });
}

}  // namespace trainyard::cli
