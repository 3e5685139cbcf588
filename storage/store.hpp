#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::storage {

struct ObjectInfo {
  std::string key;  ///< Relative to the store's prefix.
  std::uint64_t bytes = 0;
  bool operator==(const ObjectInfo&) const = default;
};

/// Success when `key` may be an object's key: 1 to 900 bytes without control characters, in parts between '/', of which
/// none is empty or begins with '.'. A key therefore never leaves its store's prefix and never names a temporary file,
/// which is hidden. ErrorKind::invalid otherwise.
[[nodiscard]] Result<void> check_key(std::string_view key);

struct PutOptions {
  /// Create only: already_exists when the key is there. Needs has_conditional_create(). After a lost reply
  /// of the server it may be this very put that has created the object: a caller that must know reads it back.
  bool if_absent = false;
};

/// Bytes of one object, in order and in one or more pieces; the pieces must stay alive until put() returns. Nothing is
/// copied.
using Pieces = std::span<const std::span<const std::byte>>;

/// A flat space of objects under one prefix of a bucket or a folder. An object exists whole or not at all, even if its
/// writer dies. Keys: check_key(). Any thread may call. Calls block until done, and retry transient errors within their
/// own deadline.
///
/// Errors: not_found (the message says whether the key or the bucket), already_exists, unauthorized, forbidden,
/// invalid, throttled, unavailable, timeout, corrupt, io, and gone for an upload that somebody else has ended. No call
/// returns conflict, which is the error of a run that meets another run.
///
/// A new backend derives from Store; azure_store.hpp is an example, and cloud_client.hpp has the HTTP part of a cloud's
/// client. It needs a Scheme in uri.hpp, which parse_uri() and to_string() know; a branch in open_store(); its URIs in
/// the patterns of crds/, of which charts/trainyard/files has a copy; its credentials in add_credentials() of
/// operator/manifest/worker_pod.hpp; and a run of the contract in tests/storage/store_contract.hpp. All steps:
/// docs/extending.md, "A store".
class Store {
 public:
  virtual ~Store() = default;

  /// Success when the store can be used: the bucket exists and accepts the credentials, or the folder can be made and
  /// written. Changes nothing, and answers within seconds.
  [[nodiscard]] virtual Result<void> probe() = 0;
  [[nodiscard]] virtual Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options = {}) = 0;
  /// The whole object.
  [[nodiscard]] virtual Result<std::vector<std::byte>> get(std::string_view key) = 0;
  /// Fills `into` with the bytes from `offset` on; ErrorKind::corrupt when the object is shorter.
  [[nodiscard]] virtual Result<void> get_range(std::string_view key, std::uint64_t offset,
                                               std::span<std::byte> into) = 0;
  /// Objects whose key begins with `prefix`, sorted by key.
  [[nodiscard]] virtual Result<std::vector<ObjectInfo>> list(std::string_view prefix) = 0;
  /// Success also when there is no such key. A remote store returns `cancelled` soon after a stop is requested.
  [[nodiscard]] virtual Result<void> remove(std::string_view key, const std::stop_token& stop = {}) = 0;
  /// Removes the objects of all `keys`, in no order: several at a time, or many by one request where the server can.
  /// Success also for keys that do not exist. The first final error ends the removal, and its message names the key;
  /// `cancelled` soon after a stop is requested. After an error some objects are left.
  [[nodiscard]] virtual Result<void> remove_all(std::span<const std::string> keys, std::stop_token stop = {});
  /// Removes what writers that died during a put() left in the folders for which `is_abandoned` is true. `is_abandoned`
  /// takes the folder's key, without a slash at the end. Removes no object.
  [[nodiscard]] virtual Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) = 0;

  /// True when put({.if_absent = true}) is atomic. A store without it has one writer at a time. May become false once a
  /// server has refused such a put.
  [[nodiscard]] virtual bool has_conditional_create() const = 0;
  /// True when a second read on the same node is served from the node's memory (page cache), as with files.
  [[nodiscard]] virtual bool is_cached_on_node() const { return false; }
  /// How many parallel calls are fastest: a remote server answers several as quickly as one.
  [[nodiscard]] virtual std::size_t concurrency() const { return 8; }
  /// The error for which calls are being retried; empty while none is, and always for a store that does not retry.
  [[nodiscard]] virtual std::string trouble() const { return {}; }
  /// The URI of `key`, without any secret.
  [[nodiscard]] virtual std::string uri_of(std::string_view key) const = 0;
};

struct S3Options {
  std::string endpoint;  ///< "https://host:port". Empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else AWS's, by region.
  std::string region;    ///< Empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, else us-east-1.
  /// True when the bucket is part of the path. Empty: true for every endpoint except AWS's own. Always true for
  /// endpoints without a dotted name (localhost, addresses, service names).
  std::optional<bool> path_style = {};
  std::string sse;             ///< Encryption by the server: AES256, aws:kms or aws:kms:dsse. Empty: the bucket's.
  std::string sse_kms_key_id;  ///< For aws:kms and aws:kms:dsse. Empty: the account's own.
};

/// A store for `uri`: file:///folder, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix,
/// command:/program?folder=/folder, or https://host/folder to read only. Contacts no server yet. ErrorKind::invalid for
/// another scheme, a relative path and a wrong environment variable; the message says what would be right.
///
/// The store looks for credentials at its first request: credentials.hpp says where, in what order.
[[nodiscard]] Result<std::unique_ptr<Store>> open_store(std::string_view uri, const S3Options& s3 = {});

/// Puts one text.
[[nodiscard]] Result<void> put_text(Store& store, std::string_view key, std::string_view text,
                                    const PutOptions& options = {});
[[nodiscard]] Result<std::string> get_text(Store& store, std::string_view key);

}  // namespace trainyard::storage
