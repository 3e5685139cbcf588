#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "storage/s3_client.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"

namespace trainyard::storage {

/// How an S3 store cuts its work up.
struct S3Tuning {
  HttpTuning http;
  TransferChoice transfer;        ///< An object that fits into one part goes up in one piece.
  std::int64_t page_keys = 1000;  ///< Of a list; servers give 1000 at most.
  /// Limit of one try to put the parts of a large object together, which may take a server minutes.
  std::chrono::milliseconds completion_deadline{600'000};
  /// Younger uploads that nobody completed are left alone, whoever's they are.
  std::chrono::milliseconds orphan_age_min{std::chrono::hours{1}};
};

/// Objects under a prefix of an S3 bucket. Large ones go up and come down in parts over several connections. Everything
/// that is sent carries its CRC-32C, which the server checks; what comes back is checked where the server gives one.
class S3Store final : public Store {
 public:
  S3Store(S3Config config, S3Tuning tuning);

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  /// By DeleteObjects, a thousand keys a request; one by one where the server has no such request.
  [[nodiscard]] Result<void> remove_all(std::span<const std::string> keys, std::stop_token stop) override;
  /// Takes uploads that began long ago and were never completed. Where the key may not list them, or the server does
  /// not, they are left to the bucket's lifecycle rules, and it is logged.
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return has_conditional_create_; }
  [[nodiscard]] std::string trouble() const override { return client_.trouble(); }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

 private:
  [[nodiscard]] std::string object_of(std::string_view key) const;
  [[nodiscard]] std::map<std::string, std::string> checksums_of(Pieces pieces) const;
  /// False where the server has no DeleteObjects: the objects are still there.
  [[nodiscard]] Result<bool> remove_by_request(std::span<const std::string> keys, const std::stop_token& stop);
  [[nodiscard]] Result<void> put_whole(std::string_view key, Pieces pieces, const PutOptions& options);

  S3Client client_;
  const S3Tuning tuning_;
  std::atomic<bool> has_conditional_create_ = true;
  std::atomic<bool> has_bulk_removal_ = true;
};

}  // namespace trainyard::storage
