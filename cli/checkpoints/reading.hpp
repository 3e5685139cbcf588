#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>

#include "common/result.hpp"
#include "storage/store.hpp"

/// Helpers of the commands that read a store of checkpoints or snapshots, or a file of tensors.
namespace trainyard::cli {

/// Results go to `out`, notes and errors to `err`.
struct Streams {
  std::ostream& out;
  std::ostream& err;
};

/// Prints the error. Returns the exit code for it.
[[nodiscard]] int report(const Streams& streams, const Error& error);

/// A store whose calls fail once `is_stopped` is true. ErrorKind::not_found for a folder of this machine that does not
/// exist: a store would treat it as an empty one.
[[nodiscard]] Result<std::unique_ptr<storage::Store>> open_for_reading(const std::string& uri,
                                                                       const storage::S3Options& s3,
                                                                       std::function<bool()> is_stopped);

/// Makes `option` take the number of a step.
CLI::Option* expect_step(CLI::Option* option);

/// Adds the options that say where S3 is.
void add_s3(CLI::App& command, storage::S3Options& s3);

/// A store whose calls fail with ErrorKind::cancelled once `is_stopped` is true. The caller then ends and cleans up as
/// after any other failure. A call in progress is not interrupted.
class StoppableStore final : public storage::Store {
 public:
  StoppableStore(std::unique_ptr<storage::Store> store, std::function<bool()> is_stopped)
      : store_{std::move(store)}, is_stopped_{std::move(is_stopped)} {}

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, storage::Pieces pieces,
                                 const storage::PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<storage::ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return store_->has_conditional_create(); }
  [[nodiscard]] bool is_cached_on_node() const override { return store_->is_cached_on_node(); }
  [[nodiscard]] std::size_t concurrency() const override { return store_->concurrency(); }
  [[nodiscard]] std::string uri_of(std::string_view key) const override { return store_->uri_of(key); }

 private:
  [[nodiscard]] Result<void> check_not_stopped() const;

  std::unique_ptr<storage::Store> store_;
  std::function<bool()> is_stopped_;
};

/// While a guard lives, SIGBUS ends the program with an error message and exit code 1 instead of a crash. The signal
/// comes when the program reads a mapped file that was truncated meanwhile. A process may have one guard at a time.
class CutFileGuard {
 public:
  /// `path`: the mapped file, for the message.
  explicit CutFileGuard(const std::string& path);
  CutFileGuard(const CutFileGuard&) = delete;
  CutFileGuard& operator=(const CutFileGuard&) = delete;
  ~CutFileGuard();
};

}  // namespace trainyard::cli
