#pragma once

#include <string>

#include "checkpoint/format/identity.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/file_store.hpp"

/// A node's folders of local checkpoints: `path`/UID, one for each life of a job, with owner.json in it that says
/// whose it is. Nothing else under `path` is ever touched.
namespace trainyard::checkpoint {

/// `path`/UID. ErrorKind::invalid where the job has no UID that can name a folder.
[[nodiscard]] Result<std::string> local_folder(const std::string& path, const Identity& identity);

/// A store in `folder`. Its calls fail with ErrorKind::invalid where a symbolic link has taken the folder's place, so
/// that nobody else who may write there can lead them elsewhere.
[[nodiscard]] storage::FileStore open_local_store(const std::string& folder);

/// Makes the folder, which says from then on whose it is.
[[nodiscard]] Result<void> mark_local_folder(const std::string& path, const Identity& identity);

/// Removes the checkpoints of earlier lives of the job (the same namespace and name with another UID) in which nothing
/// has changed for a day, and their folders where they are empty then. Failures are logged.
void remove_old_local_folders(const std::string& path, const Identity& identity, Time now);

/// Removes the job's own checkpoints, and their folder where it is empty then. Failures are logged.
void remove_local_folder(const std::string& path, const Identity& identity);

}  // namespace trainyard::checkpoint
