#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::data {

/// The folder under `cache` that belongs to `uri`: readable, and different for different URIs.
[[nodiscard]] std::filesystem::path cache_folder(const std::filesystem::path& cache, std::string_view uri);

/// Copies every object of `store` into `folder`, which it makes, unless a file of that name and size is there already.
/// Left out, with a warning, are keys that storage::check_key() refuses: marks of folders, hidden files, ways out.
/// One process of a machine fetches at a time; the others wait for it and then find the files. `on_progress` is called
/// at least every 16 MiB, and while waiting. not_found when the store holds nothing; the storage's errors; io.
[[nodiscard]] Result<void> fetch(storage::Store& store, const std::filesystem::path& folder,
                                 const std::function<void()>& on_progress);

}  // namespace trainyard::data
