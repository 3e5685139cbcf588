#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::cli {

/// Absolute folders of this machine that stand for PersistentVolumeClaims, by the claims' names.
using ClaimFolders = std::map<std::string, std::string>;

/// Adds one `--volume CLAIM=FOLDER`; a relative folder is one of the current folder. ErrorKind::invalid when it is not
/// of that form or names a claim again.
[[nodiscard]] Result<void> add_claim_folder(std::string_view flag, ClaimFolders& folders);

/// A TrainingJob as it runs without Kubernetes, where nothing can be mounted: data on a claim becomes data in the
/// claim's folder; where spec.training is given, the training container's volumeMounts of a claim have its folder for a
/// mountPath, and data, weights and file:// checkpoints under such a mount follow it. Other containers' mounts stay as
/// they are: their programs know the paths (local::resolve_container refuses those that lead elsewhere here).
/// ErrorKind::not_found names the claim that no folder stands for.
[[nodiscard]] Result<nlohmann::json> with_claim_folders(nlohmann::json job, const ClaimFolders& folders);

/// Succeeds if every claim of `job` has a folder that exists, or that will be made because checkpoints are written into
/// it. ErrorKind::not_found names all other claims at once, and the --volume options that are missing.
[[nodiscard]] Result<void> check_claims(const nlohmann::json& job, const ClaimFolders& folders);

/// The folders of the claims of `job` that have to be made before it runs as `adapted` (with_claim_folders): only what
/// it writes checkpoints into. ErrorKind::not_found names all others that are not there, which may be mistyped.
[[nodiscard]] Result<std::vector<std::string>> missing_folders(const nlohmann::json& job, const nlohmann::json& adapted,
                                                               const ClaimFolders& folders);

/// `job`, which has spec.training, with its checkpoints in `folder`, an absolute one of this machine. The folder is
/// mounted into the container that trains, as a volume that outlives the pods: the API takes no other file://
/// checkpoint.
[[nodiscard]] nlohmann::json with_checkpoint_folder(nlohmann::json job, const std::string& folder);

}  // namespace trainyard::cli
