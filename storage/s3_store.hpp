#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "storage/s3_client.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"

namespace trainyard::storage {

/// How an S3Store divides its work into requests.
struct S3Tuning {
  HttpTuning http;
  TransferChoice transfer;        ///< An object that fits into one part is sent in one request.
  std::int64_t page_keys = 1000;  ///< Keys in a page of a list, at most 1000.
  /// Limit of one request that joins the parts of a large object, which may take the server minutes.
  std::chrono::milliseconds completion_deadline{600'000};
  /// Age from which an upload that nobody completed may be removed.
  std::chrono::milliseconds orphan_age_min{std::chrono::hours{1}};
};

/// Objects under a prefix of an S3 bucket. Large objects are sent and read in parts over several connections. Every
/// upload carries its CRC-32C, which the server checks; a read is checked where the server's reply has a CRC.
class S3Store final : public Store {
 public:
  S3Store(S3Config config, S3Tuning tuning);

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  /// Uses DeleteObjects, with a thousand keys in a request; one request a key where the server has no DeleteObjects.
  [[nodiscard]] Result<void> remove_all(std::span<const std::string> keys, std::stop_token stop) override;
  /// Removes uploads that began long ago and were never completed. Where the credentials do not allow to list them, or
  /// the server cannot, logs that, and leaves them to the bucket's lifecycle rules.
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return has_conditional_create_; }
  [[nodiscard]] std::string trouble() const override { return client_.trouble(); }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

 private:
  [[nodiscard]] std::string object_of(std::string_view key) const;
  [[nodiscard]] std::map<std::string, std::string> checksums_of(Pieces pieces) const;
  /// False where the server has no DeleteObjects: nothing was removed.
  [[nodiscard]] Result<bool> remove_by_request(std::span<const std::string> keys, const std::stop_token& stop);
  [[nodiscard]] Result<void> put_whole(std::string_view key, Pieces pieces, const PutOptions& options);

  S3Client client_;
  const S3Tuning tuning_;
  std::atomic<bool> has_conditional_create_ = true;
  std::atomic<bool> has_bulk_removal_ = true;
};

}  // namespace trainyard::storage
