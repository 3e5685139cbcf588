#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/open_folder.hpp"
#include "storage/store.hpp"

namespace trainyard::data {

/// The folder under `cache` for the data of `uri`. Its name is readable, and differs for different URIs.
[[nodiscard]] std::filesystem::path cache_folder(const std::filesystem::path& cache, std::string_view uri);

/// Copies every object of `store` into `folder`, which is absolute, unless a file of that name and size exists already.
/// What it makes, the folder and its missing parents too, has the permissions `modes`, whatever the umask.
/// Skips keys that storage::check_key() refuses (folder markers, hidden files, ways out), with a warning. One process
/// of a machine fetches at a time; the others wait for it and then find the files. `on_progress` is called at least
/// every 16 MiB, and while waiting. Errors: not_found when the store is empty; the storage's; io.
[[nodiscard]] Result<void> fetch(storage::Store& store, const std::filesystem::path& folder,
                                 const storage::posix::Modes& modes, const std::function<void()>& on_progress);

}  // namespace trainyard::data
