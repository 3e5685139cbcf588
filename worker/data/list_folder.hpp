#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::data {

struct FolderEntry {
  std::string name;
  bool is_folder = false;
};

/// The entries of `folder` without hidden names, sorted by the bytes of the names, so that all machines agree.
/// A link is followed where it leads to a place within `root`; `folder` may be one too. not_found: there is no such
/// folder. invalid: a link leads out of `root`, or nowhere. io: it cannot be read.
[[nodiscard]] Result<std::vector<FolderEntry>> list_folder(const std::filesystem::path& folder,
                                                           const std::filesystem::path& root);

/// The names of the .jpg, .jpeg and .png files in `folder`, sorted; other files are skipped. Errors of list_folder();
/// invalid: there is a folder in `folder`.
[[nodiscard]] Result<std::vector<std::string>> list_images(const std::filesystem::path& folder,
                                                           const std::filesystem::path& root);

/// A checksum of `names` and their order. `hash` is word_hash_start or the checksum of the names before.
[[nodiscard]] std::uint64_t hash_of_names(std::uint64_t hash, const std::vector<std::string>& names);

/// The folder in `root` with the validation's files: val, or else validation. not_found: neither is there.
[[nodiscard]] Result<std::filesystem::path> find_validation_folder(const std::filesystem::path& root);

}  // namespace trainyard::data
