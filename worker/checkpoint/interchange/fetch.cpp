#include "worker/checkpoint/interchange/fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "storage/crc32c.hpp"
#include "storage/posix.hpp"
#include "worker/checkpoint/core/sealed_json.hpp"
#include "worker/checkpoint/interchange/new_file.hpp"

namespace trainyard::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t piece_bytes = std::uint64_t{32} << 20;

// A folder under a hidden name that goes with this, but for the case that it got its own.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)), temporary_(hidden_name_beside(path_)) {}
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;  // Hidden clutter is all that can stay.
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  }

  [[nodiscard]] std::string file(const std::string& key) const { return temporary_ + "/" + key; }

  Result<void> make_folder_of(const std::string& file) {
    return storage::posix::make_directories(folder_of(file)).and_then([](const std::vector<std::string>& changed) {
      Result<void> synced;
      for (const std::string& folder : changed) {
        if (synced) synced = storage::posix::sync_directory(folder);
      }
      return synced;
    });
  }

  Result<void> commit() {
    // An empty folder is replaced by this call, and no other.
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) return is_there();
      return tl::unexpected(storage::posix::error_of(errno, fmt::format("naming the folder {}", path_)));
    }
    temporary_.clear();
    return storage::posix::sync_directory(folder_of(path_));
  }

  [[nodiscard]] tl::unexpected<Error> is_there() const {
    return fail(ErrorKind::already_exists,
                fmt::format("{} is already there and is not an empty folder: name a new one", path_));
  }

 private:
  const std::string path_;
  std::string temporary_;
};

Result<void> write_text(NewFolder& folder, const std::string& key, const std::string& text) {
  const std::string path = folder.file(key);
  if (auto made = folder.make_folder_of(path); !made) return made;
  auto file = NewFile::create(path, false);
  if (!file) return tl::unexpected(file.error());
  return file->write(std::as_bytes(std::span{text})).and_then([&] { return file->commit(); });
}

Result<void> copy_file(storage::Store& store, const CheckpointId& id, const Receipt& receipt, NewFolder& folder) {
  const std::string key = data_key(id, receipt.rank);
  const std::string path = folder.file(key);
  if (auto made = folder.make_folder_of(path); !made) return made;
  auto file = NewFile::create(path, false);
  if (!file) return tl::unexpected(file.error());
  std::uint32_t crc = 0;
  std::vector<std::byte> piece;
  for (std::uint64_t offset = 0; offset < receipt.bytes; offset += piece.size()) {
    piece.resize(std::min(piece_bytes, receipt.bytes - offset));
    auto copied = store.get_range(key, offset, piece).and_then([&] { return file->write(piece); });
    if (!copied) return copied;
    crc = storage::crc32c(piece, crc);
  }
  if (crc != receipt.crc32c) {
    return fail(ErrorKind::corrupt, fmt::format("{} is damaged: its checksum does not match. `trainyard checkpoints "
                                                "verify` names what in it is, and another step may be whole",
                                                store.uri_of(key)));
  }
  return file->commit();
}

// The generation's own claim; one that is lost is made up from what the manifest says.
std::string claim_text(const Inventory& inventory, const Manifest& manifest) {
  const auto claim = std::find_if(inventory.claims.begin(), inventory.claims.end(),
                                  [&](const Claim& each) { return each.generation == manifest.id.generation; });
  if (claim != inventory.claims.end()) return to_text(*claim);
  return to_text(Claim{.generation = manifest.id.generation,
                       .identity = manifest.identity,
                       .resumed_from = std::nullopt,
                       .time = manifest.time,
                       .nonce = manifest.nonce});
}

}  // namespace

Result<std::uint64_t> fetch(storage::Store& store, const Inventory& inventory, const Manifest& manifest,
                            const std::string& folder) {
  NewFolder target{folder};
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error)) return target.is_there();
  for (const Receipt& receipt : manifest.receipts) {
    if (auto copied = copy_file(store, manifest.id, receipt, target); !copied) return tl::unexpected(copied.error());
    const std::string key = receipt_key(manifest.id, receipt.rank);
    if (auto written = write_text(target, key, seal(to_json(receipt))); !written)
      return tl::unexpected(written.error());
  }
  return write_text(target, claim_key(manifest.id.generation), claim_text(inventory, manifest))
      .and_then([&] { return write_text(target, end_key(manifest.id.generation), ""); })
      .and_then([&] { return write_text(target, manifest_key(manifest.id), to_text(manifest)); })
      .and_then([&] { return target.commit(); })
      .map([&] { return data_bytes(manifest); });
}

}  // namespace trainyard::checkpoint
