#pragma once

#include <arrow/filesystem/filesystem.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "storage/arrow_module.hpp"
#include "storage/http_client.hpp"
#include "storage/store.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

/// A cloud as an ArrowStore needs to know it.
struct ArrowCloud {
  std::shared_ptr<arrow::fs::FileSystem> files;
  std::string url;        ///< Where its server is; any answer to a GET of it says that it is there.
  std::string secret;     ///< What no message may hold.
  std::string ca_bundle;  ///< Where Arrow's clients find certificates; empty: the system's.
};

/// Objects under a prefix of a bucket, through a file system of Arrow's. There is no conditional create: one writer at
/// a time.
///
/// Azure's file system makes an object that is empty before it writes it, and again when it overwrites one. So what is
/// empty and not marked as whole is an object whose writer has died, or is still writing: it counts as not there.
class ArrowStore final : public Store {
 public:
  /// `uri`: of Scheme::gs or az.
  ArrowStore(Uri uri, ArrowCloud cloud, ArrowTuning tuning);

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key) override;
  /// Takes the empty objects of dead writers. Parts that were never put together the clouds drop after a week.
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return false; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

 private:
  using Act = std::function<Result<void>()>;

  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] Result<void> attempt(const std::string& doing, const Act& act);
  [[nodiscard]] Result<void> knock(const std::string& doing);
  [[nodiscard]] tl::unexpected<Error> failed(const std::string& doing, const arrow::Status& status) const;
  [[nodiscard]] Result<void> write(const std::string& doing, const std::string& path, Pieces pieces);
  [[nodiscard]] Result<void> check_bucket(const std::string& doing);
  [[nodiscard]] Result<bool> is_whole(const std::string& doing, const std::string& path);
  [[nodiscard]] Result<arrow::fs::FileInfoVector> look(const std::string& doing, const std::string& folder,
                                                       bool is_recursive);
  [[nodiscard]] Result<std::vector<ObjectInfo>> files_below(const std::string& doing, std::string_view prefix);

  const Uri uri_;
  const ArrowCloud cloud_;
  const ArrowTuning tuning_;
  HttpClient http_;
  std::atomic<bool> is_reachable_ = false;   // The server has answered since the last failure that may pass.
  std::atomic<bool> has_succeeded_ = false;  // Anything, ever.
  std::atomic<bool> has_bucket_ = false;     // It has been seen.
};

}  // namespace trainyard::storage
