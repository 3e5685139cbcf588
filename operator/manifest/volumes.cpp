#include "operator/manifest/volumes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/contract.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

bool has_mount_at(const json& container, std::string_view path) {
  const json mounts = container.value("volumeMounts", json::array());
  return std::ranges::any_of(mounts, [&](const json& mount) { return mount.value("mountPath", "") == path; });
}

}  // namespace

void add_shared_memory(json& pod_spec, json& worker) {
  constexpr std::string_view path = "/dev/shm";
  if (has_mount_at(worker, path)) return;
  pod_spec["volumes"].push_back({{"name", "trainyard-shm"}, {"emptyDir", {{"medium", "Memory"}}}});
  worker["volumeMounts"].push_back({{"name", "trainyard-shm"}, {"mountPath", path}});
}

void add_data_claim(json& pod_spec, json& worker, const std::string& claim) {
  if (has_mount_at(worker, contract::data_mount_path)) return;
  // The volume is read-only too, so that the kubelet does not change the owner of each file in a large data set.
  pod_spec["volumes"].push_back(
      {{"name", "trainyard-data"}, {"persistentVolumeClaim", {{"claimName", claim}, {"readOnly", true}}}});
  worker["volumeMounts"].push_back(
      {{"name", "trainyard-data"}, {"mountPath", contract::data_mount_path}, {"readOnly", true}});
}

void add_google_credentials(json& pod_spec, json& worker, const std::string& secret) {
  if (has_mount_at(worker, contract::google_credentials_folder)) return;
  pod_spec["volumes"].push_back({{"name", "trainyard-credentials"}, {"secret", {{"secretName", secret}}}});
  worker["volumeMounts"].push_back(
      {{"name", "trainyard-credentials"}, {"mountPath", contract::google_credentials_folder}, {"readOnly", true}});
}

}  // namespace trainyard::manifest
