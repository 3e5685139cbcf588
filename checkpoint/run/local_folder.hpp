#pragma once

#include <string>

#include "checkpoint/format/claim.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/file_store.hpp"

/// The local tier's folders of a node: `path`/UID for each life of a job. owner.json in the folder names the job.
/// Nothing else under `path` is touched.
namespace trainyard::checkpoint {

/// The folder `path`/UID. ErrorKind::invalid if the job has no UID, or one that cannot name a folder.
[[nodiscard]] Result<std::string> local_folder(const std::string& path, const Identity& identity);

/// A store in `folder`. Its calls fail with ErrorKind::invalid if a symbolic link has replaced the folder: others who
/// may write there must not redirect them.
[[nodiscard]] storage::FileStore open_local_store(const std::string& folder);

/// Makes the folder, and puts owner.json into it.
[[nodiscard]] Result<void> mark_local_folder(const std::string& path, const Identity& identity);

/// Removes the copies of earlier lives of the job (same namespace and name, another UID) that have not changed for a
/// day, and the folders that are then empty. Failures are logged.
void remove_old_local_folders(const std::string& path, const Identity& identity, Time now);

/// Removes the job's own copies, and its folder if that is then empty. Failures are logged.
void remove_local_folder(const std::string& path, const Identity& identity);

}  // namespace trainyard::checkpoint
