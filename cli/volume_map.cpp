#include "cli/volume_map.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace trainyard::cli {
namespace {

using nlohmann::json;

constexpr std::string_view file_scheme = "file://";

Result<std::string> folder_of(const std::string& claim, const std::string& field, const ClaimFolders& folders) {
  const auto found = folders.find(claim);
  if (found != folders.end()) return found->second;
  return fail(
      ErrorKind::not_found,
      fmt::format("{}: nothing on this machine stands for the claim {}; say which folder does: --volume {}=FOLDER",
                  field, claim, claim));
}

/// Lexically normal and without a slash at the end, so that equal folders are equal texts.
std::string normal(const std::filesystem::path& path) {
  std::string text = path.lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

/// What follows `folder` in `path`: "/a/b" under "/a" is "/b"; nothing when `path` is not under it.
std::optional<std::string> rest_under(const std::string& path, const std::string& folder) {
  if (path == folder) return "";
  const std::string prefix = folder == "/" ? folder : folder + "/";
  if (!path.starts_with(prefix)) return {};
  return "/" + path.substr(prefix.size());
}

Result<void> move_data(json& data, const ClaimFolders& folders) {
  const std::string claim = data.value("volumeClaim", "");
  if (claim.empty()) return {};
  const auto folder = folder_of(claim, "spec.training.data.volumeClaim", folders);
  if (!folder) return tl::unexpected{folder.error()};
  data["path"] = normal(std::filesystem::path{*folder} / data.value("path", ""));
  data.erase("volumeClaim");
  return {};
}

/// Folders by the names of the pod's volumes that are claims.
Result<ClaimFolders> folders_of_volumes(const json& pod_spec, const ClaimFolders& folders) {
  ClaimFolders by_volume;
  std::size_t index = 0;
  for (const json& volume : pod_spec.value("volumes", json::array())) {
    const std::string field = fmt::format("spec.template.spec.volumes[{}]", index++);
    const std::string claim = volume.value("/persistentVolumeClaim/claimName"_json_pointer, "");
    if (claim.empty()) continue;
    auto folder = folder_of(claim, field, folders);
    if (!folder) return tl::unexpected{folder.error()};
    by_volume[volume.value("name", "")] = std::move(*folder);
  }
  return by_volume;
}

/// The longest mount wins, as in a mount table.
void move_mounts(json& container, const ClaimFolders& by_volume, const std::string& checkpoint_path,
                 std::optional<std::string>& moved_path) {
  std::size_t longest = 0;
  if (!container.contains("volumeMounts")) return;
  for (json& mount : container.at("volumeMounts")) {
    const auto folder = by_volume.find(mount.value("name", ""));
    if (folder == by_volume.end()) continue;
    const std::string mounted_at = normal(mount.value("mountPath", ""));
    const std::string source = normal(std::filesystem::path{folder->second} / mount.value("subPath", ""));
    mount["mountPath"] = source;
    const auto rest = rest_under(checkpoint_path, mounted_at);
    if (rest && mounted_at.size() >= longest) {
      longest = mounted_at.size();
      moved_path = source + *rest;
    }
  }
}

}  // namespace

Result<void> add_claim_folder(std::string_view flag, ClaimFolders& folders) {
  const std::size_t equals = flag.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == flag.size()) {
    return fail(ErrorKind::invalid,
                fmt::format("--volume {}: must be CLAIM=FOLDER, such as datasets=/usr/share/datasets", flag));
  }
  const std::string folder = normal(std::filesystem::absolute(flag.substr(equals + 1)));
  if (!folders.emplace(flag.substr(0, equals), folder).second) {
    return fail(ErrorKind::invalid,
                fmt::format("--volume {}: the claim {} has a folder already", flag, flag.substr(0, equals)));
  }
  return {};
}

Result<json> with_claim_folders(json job, const ClaimFolders& folders) {
  json& spec = job.at("spec");
  if (const auto data = "/training/data"_json_pointer; spec.contains(data)) {
    if (const auto moved = move_data(spec.at(data), folders); !moved) return tl::unexpected{moved.error()};
  }
  const auto template_spec = "/template/spec"_json_pointer;
  if (!spec.contains(template_spec)) return job;
  json& pod_spec = spec.at(template_spec);
  const auto by_volume = folders_of_volumes(pod_spec, folders);
  if (!by_volume) return tl::unexpected{by_volume.error()};

  const auto uri_field = "/checkpoint/uri"_json_pointer;
  const std::string uri = spec.value(uri_field, "");
  const std::string checkpoint_path = uri.starts_with(file_scheme) ? normal(uri.substr(file_scheme.size())) : "";
  for (const char* list : {"containers", "initContainers"}) {
    if (!pod_spec.contains(list)) continue;
    const bool is_lone = pod_spec.at(list).size() == 1;
    for (json& container : pod_spec.at(list)) {
      const bool is_worker =
          std::string_view{list} == "containers" && (is_lone || container.value("name", "") == "worker");
      std::optional<std::string> moved_path;
      move_mounts(container, *by_volume, checkpoint_path, moved_path);
      if (is_worker && moved_path && !checkpoint_path.empty()) spec[uri_field] = std::string{file_scheme} + *moved_path;
    }
  }
  return job;
}

json with_checkpoint_folder(json job, const std::string& folder) {
  job["spec"]["checkpoint"]["uri"] = std::string{file_scheme} + folder;
  json& pod_spec = job["spec"]["template"]["spec"];
  json& containers = pod_spec["containers"];
  if (containers.empty()) containers = json::array({{{"name", "worker"}}});
  pod_spec["volumes"].push_back({{"name", "checkpoint-folder"}, {"hostPath", {{"path", folder}}}});
  for (json& container : containers) {
    if (containers.size() > 1 && container.value("name", "") != "worker") continue;
    container["volumeMounts"].push_back({{"name", "checkpoint-folder"}, {"mountPath", folder}});
  }
  return job;
}

}  // namespace trainyard::cli
