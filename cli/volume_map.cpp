#include "cli/volume_map.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "api/contract.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;

constexpr std::string_view local_path_field = "/checkpoint/local/path";

Result<std::string> folder_of(const std::string& volume_claim, const std::string& field,
                              const VolumeClaimFolders& folders) {
  const auto found = folders.find(volume_claim);
  if (found != folders.end()) return found->second;
  return fail(ErrorKind::not_found,
              fmt::format("{}: volume claim '{}' has no folder on this machine; add --volume {}=FOLDER", field,
                          volume_claim, volume_claim));
}

/// The volume claims that `job` names, each once.
std::set<std::string> volume_claims_of(const json& job) {
  const json& spec = job.at("spec");
  std::set<std::string> volume_claims{spec.value("/training/data/volumeClaim"_json_pointer, "")};
  for (const json& volume : spec.value("/template/spec/volumes"_json_pointer, json::array()))
    volume_claims.insert(volume.value("/persistentVolumeClaim/claimName"_json_pointer, ""));
  volume_claims.erase("");
  return volume_claims;
}

/// A sentence that asks for a folder for each of `volume_claims`.
std::string ask_for_folders(const std::vector<std::string>& volume_claims) {
  std::vector<std::string> quoted;
  std::vector<std::string> flags;
  for (const std::string& volume_claim : volume_claims) {
    quoted.push_back(fmt::format("'{}'", volume_claim));
    flags.push_back(fmt::format("--volume {}=FOLDER", volume_claim));
  }
  const bool is_one = volume_claims.size() == 1;
  return fmt::format("{} {} {} no folder on this machine; add {}", is_one ? "volume claim" : "volume claims",
                     fmt::join(quoted, ", "), is_one ? "has" : "have", fmt::join(flags, " "));
}

/// `path` in its lexically normal form without a slash at the end, so that equal folders are equal texts.
std::string normal(const std::filesystem::path& path) {
  std::string text = path.lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

/// The path of a file:// URI; empty for other URIs.
std::string file_path(const std::string& uri) {
  return uri.starts_with(file_scheme) ? normal(uri.substr(file_scheme.size())) : "";
}

/// The part of `path` after `folder`: "/b" for "/a/b" under "/a". Empty optional: `path` is not under `folder`.
std::optional<std::string> rest_under(const std::string& path, const std::string& folder) {
  if (path == folder) return "";
  const std::string prefix = folder == "/" ? folder : folder + "/";
  if (!path.starts_with(prefix)) return {};
  return "/" + path.substr(prefix.size());
}

Result<void> move_data(json& data, const VolumeClaimFolders& folders) {
  const std::string volume_claim = data.value("volumeClaim", "");
  if (volume_claim.empty()) return {};
  const auto folder = TRY(folder_of(volume_claim, "spec.training.data.volumeClaim", folders));
  data["path"] = normal(std::filesystem::path{folder} / data.value("path", ""));
  data.erase("volumeClaim");
  return {};
}

/// The folder of each of the pod's volumes that is a volume claim, by the volume's name.
Result<VolumeClaimFolders> folders_of_volumes(const json& pod_spec, const VolumeClaimFolders& folders) {
  VolumeClaimFolders by_volume;
  std::size_t index = 0;
  for (const json& volume : pod_spec.value("volumes", json::array())) {
    const std::string field = fmt::format("spec.template.spec.volumes[{}]", index++);
    const std::string volume_claim = volume.value("/persistentVolumeClaim/claimName"_json_pointer, "");
    if (volume_claim.empty()) continue;
    by_volume[volume.value("name", "")] = TRY(folder_of(volume_claim, field, folders));
  }
  return by_volume;
}

struct MovedMount {
  std::string from;
  std::string to;
};

std::vector<MovedMount> move_mounts(json& container, const VolumeClaimFolders& by_volume) {
  std::vector<MovedMount> moved;
  if (!container.contains("volumeMounts")) return moved;
  for (json& mount : container.at("volumeMounts")) {
    const auto folder = by_volume.find(mount.value("name", ""));
    if (folder == by_volume.end()) continue;
    moved.push_back({.from = normal(mount.value("mountPath", "")),
                     .to = normal(std::filesystem::path{folder->second} / mount.value("subPath", ""))});
    mount["mountPath"] = moved.back().to;
  }
  return moved;
}

/// `path` after the mounts have moved. The longest mount wins, as in a mount table.
std::string follow(const std::string& path, const std::vector<MovedMount>& mounts) {
  std::string followed = path;
  std::size_t longest = 0;
  for (const auto& mount : mounts) {
    const auto rest = rest_under(path, mount.from);
    if (!rest || mount.from.size() < longest) continue;
    longest = mount.from.size();
    followed = normal(mount.to + *rest);  // A volume claim may be mapped to "/".
  }
  return followed;
}

void follow_uri(json& spec, const json::json_pointer& field, const std::vector<MovedMount>& mounts) {
  if (const auto path = file_path(spec.value(field, "")); !path.empty())
    spec[field] = std::string{file_scheme} + follow(path, mounts);
}

}  // namespace

Result<void> add_volume_claim_folder(std::string_view flag, VolumeClaimFolders& folders) {
  const std::size_t equals = flag.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == flag.size()) {
    return fail(ErrorKind::invalid,
                fmt::format("--volume {}: must be CLAIM=FOLDER, such as datasets=/usr/share/datasets", flag));
  }
  const std::string folder = normal(std::filesystem::absolute(flag.substr(equals + 1)));
  if (!folders.emplace(flag.substr(0, equals), folder).second) {
    return fail(ErrorKind::invalid, fmt::format("--volume {}: an earlier --volume names the volume claim {}", flag,
                                                flag.substr(0, equals)));
  }
  return {};
}

Result<void> check_volume_claims(const json& job, const VolumeClaimFolders& folders) {
  std::vector<std::string> without_folder;
  VolumeClaimFolders complete = folders;
  for (const std::string& volume_claim : volume_claims_of(job)) {
    // A made-up folder outside all others, so that no path in it seems to be in one of `folders`.
    if (complete.emplace(volume_claim, fmt::format("/-/{}", volume_claim)).second)
      without_folder.push_back(volume_claim);
  }
  std::vector<std::string> faults;
  if (!without_folder.empty()) faults.push_back(ask_for_folders(without_folder));
  const auto adapted = TRY(with_volume_claim_folders(job, complete));
  if (const auto missing = missing_folders(job, adapted, folders); !missing) faults.push_back(missing.error().message);
  if (faults.empty()) return {};
  return fail(ErrorKind::not_found, fmt::format("{}", fmt::join(faults, "; ")));
}

Result<json> with_volume_claim_folders(json job, const VolumeClaimFolders& folders) {
  json& spec = job.at("spec");
  const json::json_pointer local_path{std::string{local_path_field}};
  const auto data = "/training/data"_json_pointer;
  const bool is_data_mounted = spec.contains(data) && spec.at(data).value("volumeClaim", "").empty();
  if (spec.contains(data)) {
    TRY(move_data(spec.at(data), folders));
  }
  const auto containers = "/template/spec/containers"_json_pointer;
  if (const auto pod_spec = "/template/spec"_json_pointer; spec.contains(pod_spec)) {
    const auto by_volume = TRY(folders_of_volumes(spec.at(pod_spec), folders));
    // Programs of other containers have the mount paths written in them, so their mounts cannot move.
    if (!spec.contains("training") || !spec.contains(containers)) return job;
    for (json& container : spec.at(containers)) {
      if (spec.at(containers).size() > 1 && container.value("name", "") != contract::worker_container) continue;
      const auto mounts = move_mounts(container, by_volume);
      for (const std::string_view field : uri_fields) follow_uri(spec, json::json_pointer{std::string{field}}, mounts);
      if (spec.contains(local_path)) spec[local_path] = follow(normal(spec[local_path].get<std::string>()), mounts);
      if (const std::string path = is_data_mounted ? spec.at(data).value("path", "") : ""; path.starts_with('/'))
        spec.at(data)["path"] = follow(normal(path), mounts);
    }
  }
  return job;
}

Result<std::vector<std::string>> missing_folders(const json& job, const json& adapted,
                                                 const VolumeClaimFolders& folders) {
  const std::string checkpoints = file_path(adapted.at("spec").value("/checkpoint/uri"_json_pointer, ""));
  const std::string logs = file_path(adapted.at("spec").value("/training/log/uri"_json_pointer, ""));
  const std::string copies = adapted.at("spec").value(json::json_pointer{std::string{local_path_field}}, "");
  std::vector<std::string> missing;
  std::vector<std::string> mistyped;
  for (const auto& volume_claim : volume_claims_of(job)) {
    const auto folder = folders.find(volume_claim);
    std::error_code error;
    if (folder == folders.end() || std::filesystem::is_directory(folder->second, error)) continue;
    const auto is_under_it = [&](const std::string& path) { return rest_under(path, folder->second).has_value(); };
    if (is_under_it(checkpoints) || is_under_it(logs) || is_under_it(copies)) {
      missing.push_back(folder->second);
    } else {
      mistyped.push_back(fmt::format("--volume {}={}: there is no such folder", volume_claim, folder->second));
    }
  }
  if (!mistyped.empty()) return fail(ErrorKind::not_found, fmt::format("{}", fmt::join(mistyped, "; ")));
  return missing;
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
