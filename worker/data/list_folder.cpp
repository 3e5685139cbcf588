#include "worker/data/list_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <system_error>

#include "common/logging.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "common/word_hash.hpp"

namespace trainyard::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> image_endings{".jpg", ".jpeg", ".png"};

Result<void> check_link(const fs::path& link, const fs::path& root) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error);
  if (error)
    return fail(ErrorKind::invalid, fmt::format("the link {} leads nowhere: {}", link.string(), error.message()));
  const fs::path whole_root = fs::canonical(root, error);
  const auto [in_root, in_target] = std::mismatch(whole_root.begin(), whole_root.end(), target.begin(), target.end());
  if (!error && in_root == whole_root.end()) return {};
  return fail(ErrorKind::invalid, fmt::format("the link {} leads to {}, out of the data's folder {}; copy what it "
                                              "names into that folder",
                                              link.string(), target.string(), root.string()));
}

bool is_image_name(const std::string& name) {
  const std::string ending = to_lower(fs::path{name}.extension().string());
  return std::ranges::find(image_endings, ending) != image_endings.end();
}

}  // namespace

Result<std::vector<FolderEntry>> list_folder(const fs::path& folder, const fs::path& root) {
  std::error_code error;
  if (fs::is_symlink(folder, error)) {
    TRY(check_link(folder, root));
  }
  error.clear();
  std::vector<FolderEntry> entries;
  fs::directory_iterator next{folder, error};
  for (; !error && next != fs::directory_iterator{}; next.increment(error)) {
    std::string name = next->path().filename().string();
    if (name.starts_with('.')) continue;
    if (next->is_symlink(error)) {
      TRY(check_link(next->path(), root));
    }
    const bool is_folder = next->is_directory(error);
    if (error) break;
    entries.push_back({.name = std::move(name), .is_folder = is_folder});
  }
  if (error) {
    const bool is_missing = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    return fail(is_missing ? ErrorKind::not_found : ErrorKind::io,
                fmt::format("the data's folder {} cannot be read: {}", folder.string(), error.message()));
  }
  std::ranges::sort(entries, {}, &FolderEntry::name);
  return entries;
}

Result<std::vector<std::string>> list_images(const fs::path& folder, const fs::path& root) {
  auto entries = TRY(list_folder(folder, root));
  std::vector<std::string> images;
  std::size_t skipped = 0;
  for (FolderEntry& entry : entries) {
    if (entry.is_folder) {
      return fail(ErrorKind::invalid,
                  fmt::format("{} is a folder where only images are expected", (folder / entry.name).string()));
    }
    if (is_image_name(entry.name)) {
      images.push_back(std::move(entry.name));
    } else {
      ++skipped;
    }
  }
  if (skipped > 0) {
    logging::warn("files that are no images by their names are skipped",
                  {{"folder", folder.string()}, {"files", skipped}});
  }
  return images;
}

std::uint64_t hash_of_names(std::uint64_t hash, const std::vector<std::string>& names) {
  // With the zero at each name's end, so that "ab", "c" is not "a", "bc".
  for (const std::string& name : names) hash = word_hash(hash, std::as_bytes(std::span{name.c_str(), name.size() + 1}));
  return hash;
}

Result<fs::path> find_validation_folder(const fs::path& root) {
  for (const char* name : {"val", "validation"}) {
    std::error_code ignored;
    if (fs::exists(root / name, ignored)) return root / name;
  }
  return fail(ErrorKind::not_found,
              fmt::format("the data path {} has neither a folder val nor validation; training.data.options: "
                          "{{validation: false}} trains without",
                          root.string()));
}

}  // namespace trainyard::data
