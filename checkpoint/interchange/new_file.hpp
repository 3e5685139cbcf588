#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// Where bytes are written one after the other, and a few of them corrected.
class Sink {
 public:
  virtual ~Sink() = default;
  [[nodiscard]] virtual Result<void> write(std::span<const std::byte> bytes) = 0;
  /// Replaces what was written at `offset`.
  [[nodiscard]] virtual Result<void> patch(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
};

/// A file that is written beside its place under a hidden name, and takes it whole or never. What is not committed is
/// removed. Errors: already_exists, forbidden, invalid (a part of the path is no folder), not_found (of the folder), io
/// (disk full).
class NewFile final : public Sink {
 public:
  /// already_exists when something is at `path` and is not to be replaced; invalid when it is a folder.
  [[nodiscard]] static Result<NewFile> create(const std::string& path, bool may_replace);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile() override;

  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes) override;
  [[nodiscard]] Result<void> patch(std::uint64_t offset, std::span<const std::byte> bytes) override;
  /// Makes the file durable and gives it its name.
  [[nodiscard]] Result<void> commit();

 private:
  NewFile(FileDescriptor file, std::string path, std::string temporary, bool may_replace)
      : file_(std::move(file)), path_(std::move(path)), temporary_(std::move(temporary)), may_replace_(may_replace) {}

  FileDescriptor file_;
  std::string path_;
  std::string temporary_;  // Empty: the file has its name, or this was moved from.
  bool may_replace_ = false;
};

/// The hidden name beside `path` that something takes until it is whole; another one each time.
[[nodiscard]] std::string hidden_name_beside(const std::string& path);

/// The folder that `path` is in: "." where it names none.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace trainyard::checkpoint
