#include "cli/checkpoint_folder.hpp"

#include <filesystem>
#include <string_view>

#include "cli/file_uri.hpp"
#include "common/text.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  return parse_number<std::int64_t>(std::string_view{name}.substr(step_prefix.size()));
}

}  // namespace

std::optional<api::CheckpointStatus> newest_checkpoint(const std::string& uri) {
  if (!uri.starts_with(file_scheme)) return std::nullopt;
  std::optional<api::CheckpointStatus> newest;
  std::error_code error;
  for (const auto& step_folder : fs::directory_iterator{uri.substr(file_scheme.size()), error}) {
    const auto step = step_of(step_folder.path().filename());
    if (!step || (newest && newest->step > *step)) continue;
    for (const auto& generation : fs::directory_iterator{step_folder.path(), error}) {
      // Written last: without it the checkpoint is not complete.
      if (!fs::exists(generation.path() / "manifest.json", error)) continue;
      newest = {.step = *step, .uri = std::string{file_scheme} + generation.path().string()};
    }
  }
  return newest;
}

}  // namespace trainyard::cli
