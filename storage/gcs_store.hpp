#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "storage/cloud_client.hpp"
#include "storage/gcs_settings.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"

namespace trainyard::storage {

/// How a GcsStore divides its work into requests.
struct GcsTuning {
  HttpTuning http;
  TransferChoice transfer;           ///< An object that fits into one part is sent in one stream.
  std::int64_t page_objects = 1000;  ///< Objects in a page of a list, at most 1000.
  int list_pages_max = 100'000;      ///< A list with more pages is a fault of the server.
  /// Limit of one request that joins the parts of a large object, which may take the server minutes.
  std::chrono::milliseconds completion_deadline{600'000};
  /// Age from which an upload that nobody completed may be removed.
  std::chrono::milliseconds orphan_age_min{std::chrono::hours{1}};
};

/// Objects under a prefix of a bucket of Google Cloud Storage, by its JSON API. Large objects are sent by multipart
/// uploads of the XML API. Every upload carries its CRC-32C, which the server checks; the CRC in the server's reply is
/// compared, and get() checks the bytes that come back. Google has no conditional multipart upload: with `if_absent` a
/// large object is sent in one stream.
class GcsStore final : public Store {
 public:
  GcsStore(GcsSettings settings, GcsTuning tuning);

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  /// Removes multipart uploads that began long ago and were never completed. Where the account may not list them, logs
  /// that, and leaves them to the bucket's lifecycle rules.
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return true; }
  [[nodiscard]] std::string trouble() const override { return client_.trouble(); }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

 private:
  [[nodiscard]] std::string object_of(std::string_view key) const;
  [[nodiscard]] std::string json_path(std::string_view object) const;
  [[nodiscard]] std::string xml_path(std::string_view object) const;
  [[nodiscard]] Result<void> put_in_one_stream(std::string_view key, Pieces pieces, const PutOptions& options);
  [[nodiscard]] Result<void> put_in_parts(std::string_view key, Pieces pieces, const TransferPlan& plan);

  const GcsSettings settings_;
  const GcsTuning tuning_;
  CloudClient client_;
  std::atomic<bool> takes_parts_ = true;  // Until the server or the account's role has refused.
};

}  // namespace trainyard::storage
