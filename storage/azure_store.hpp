#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "storage/azure_credentials.hpp"
#include "storage/cloud_client.hpp"
#include "storage/environment.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

/// How an AzureStore divides its work into requests.
struct AzureTuning {
  HttpTuning http;
  TransferChoice transfer;         ///< A blob that fits into one block goes up in one piece.
  std::int64_t page_blobs = 5000;  ///< Blobs in a page of a list, at most 5000.
  int list_pages_max = 100'000;    ///< A list with more pages is a fault of the server.
  /// Limit of one request that makes a blob of its blocks, which may take the server minutes.
  std::chrono::milliseconds commit_deadline{600'000};
};

/// Where an AzureStore is, and how its requests are authorised.
struct AzurePlace {
  std::string container;
  std::string prefix;  ///< Without '/' at either end; may be empty.
  AzureSettings settings;
  std::shared_ptr<AccessTokens> tokens;  ///< nullptr when `settings` has a key or a SAS token.
  std::string ca_bundle;                 ///< A file; empty: the system's.
  std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>();
};

/// The place that `uri` names, with azure_settings(). Without a key or a SAS token it takes tokens from
/// fetch_azure_token(), first at the first request. ErrorKind::invalid names the variable that is missing or wrong.
[[nodiscard]] Result<AzurePlace> make_azure_place(const Uri& uri, const Environment& environment);

/// Blobs under a prefix of a container of Azure Blob Storage. Large blobs are sent in blocks over several connections.
/// Every request carries the MD5 of its body, which the server checks. get() checks the MD5 wherever the reply has one,
/// as it has for a blob that was sent in one piece.
class AzureStore final : public Store {
 public:
  AzureStore(AzurePlace place, AzureTuning tuning);

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  /// Does nothing: the server drops the blocks of an unfinished upload after a week.
  [[nodiscard]] Result<void> remove_unfinished(const std::function<bool(std::string_view folder)>&) override {
    return {};
  }
  [[nodiscard]] bool has_conditional_create() const override { return true; }
  [[nodiscard]] std::string trouble() const override { return client_.trouble(); }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

 private:
  [[nodiscard]] std::string blob_of(std::string_view key) const;
  [[nodiscard]] std::string path_of(std::string_view blob) const;
  [[nodiscard]] CloudRequest list_request(std::string_view prefix, std::int64_t blobs_max) const;
  [[nodiscard]] Result<void> put_whole(std::string_view key, Pieces pieces, const PutOptions& options);

  const AzurePlace place_;
  const AzureTuning tuning_;
  CloudClient client_;
};

}  // namespace trainyard::storage
