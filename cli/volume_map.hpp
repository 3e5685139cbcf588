#pragma once

#include <array>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::cli {

/// The fields of a TrainingJob's spec that may hold a storage URI, as JSON pointers.
inline constexpr std::array<std::string_view, 6> uri_fields{"/checkpoint/uri",     "/checkpoint/resume",
                                                            "/training/data/uri",  "/training/model/weights",
                                                            "/training/model/uri", "/training/log/uri"};

/// The beginning of a URI for a folder of this machine.
inline constexpr std::string_view file_scheme = "file://";

/// Absolute folders of this machine in place of PersistentVolumeClaims, by the volume claims' names.
using VolumeClaimFolders = std::map<std::string, std::string>;

/// Adds one `--volume CLAIM=FOLDER`; a relative folder is below the current one. ErrorKind::invalid if `flag` has
/// another form or repeats a volume claim.
[[nodiscard]] Result<void> add_volume_claim_folder(std::string_view flag, VolumeClaimFolders& folders);

/// `job` as it runs without Kubernetes, where nothing can be mounted. Data on a volume claim becomes data in that
/// volume claim's folder. If the job has spec.training, the volume claims' mounts of the training container move to
/// these folders, and so do data, weights and file:// checkpoints under them. Other containers' mounts stay, since
/// their programs know the paths (local::resolve_container refuses a mount that is no such path here).
/// ErrorKind::not_found names a volume claim without a folder.
[[nodiscard]] Result<nlohmann::json> with_volume_claim_folders(nlohmann::json job, const VolumeClaimFolders& folders);

/// Succeeds if every volume claim of `job` has a folder that exists, or that will be created because checkpoints are
/// written into it. ErrorKind::not_found names all other volume claims, and the --volume options to add.
[[nodiscard]] Result<void> check_volume_claims(const nlohmann::json& job, const VolumeClaimFolders& folders);

/// The volume claims' folders that must be created before `job` runs as `adapted` (with_volume_claim_folders): missing
/// folders that it writes checkpoints, log files or predictions into. ErrorKind::not_found names all other missing
/// folders, since they may be mistyped.
[[nodiscard]] Result<std::vector<std::string>> missing_folders(const nlohmann::json& job, const nlohmann::json& adapted,
                                                               const VolumeClaimFolders& folders);

/// `job`, which has spec.training, with its checkpoints in `folder`, an absolute path of this machine. The folder also
/// becomes a hostPath volume of the training container: the API accepts file:// checkpoints only on a volume that
/// outlives the pods.
[[nodiscard]] nlohmann::json with_checkpoint_folder(nlohmann::json job, const std::string& folder);

}  // namespace trainyard::cli
