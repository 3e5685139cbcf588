#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/backoff.hpp"
#include "storage/file_store.hpp"
#include "storage/store.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

struct CommandTuning {
  std::chrono::milliseconds deadline{std::chrono::minutes{10}};  ///< Limit of one start of the program.
  int tries_max = 5;
  Backoff backoff{.initial = std::chrono::milliseconds{500}, .max = std::chrono::milliseconds{10'000}};
};

/// Objects as files below a folder. A program of the user gets the path of each file as soon as the file is
/// whole. Its operations are put, get, list and remove; docs/storage.md, "command:", has its command lines and exit
/// codes. An operation that the program does not know is done in the folder only. There is no conditional create: one
/// writer at a time.
class CommandStore final : public Store {
 public:
  /// `uri`: of Scheme::command.
  CommandStore(Uri uri, CommandTuning tuning);

  [[nodiscard]] Result<void> probe() override;
  /// When the program fails, the file stays in the folder.
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  /// Reads the file in the folder; the program gets it first when it is not there.
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return false; }
  /// The first read of a file gets the whole file: parallel reads of it would only wait.
  [[nodiscard]] std::size_t concurrency() const override { return 1; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

 private:
  [[nodiscard]] Result<bool> knows(const std::string& operation);
  [[nodiscard]] Result<std::string> run(const std::string& operation, const std::string& path, std::string_view key,
                                        const std::stop_token& stop = {}) const;
  [[nodiscard]] Result<void> fetch(std::string_view key);

  const Uri uri_;
  const CommandTuning tuning_;
  FileStore folder_;
  std::mutex mutex_;                                   // guards capabilities_
  std::optional<std::set<std::string>> capabilities_;  // Empty until the program was asked.
};

/// The lines "BYTES KEY" of a list, sorted by key; invalid for another line. Pure.
[[nodiscard]] Result<std::vector<ObjectInfo>> parse_listing(std::string_view text);

}  // namespace trainyard::storage
