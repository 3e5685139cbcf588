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

struct PutOptions {
  /// Create only: already_exists when the key is there. Needs has_conditional_create(). Where a reply of the server was
  /// lost, the object that is there may be our own: what must be known is found by reading it back.
  bool if_absent = false;
};

/// Bytes of one object, in order and in one or more pieces; the pieces must stay alive until put() returns. Nothing is
/// copied.
using Pieces = std::span<const std::span<const std::byte>>;

/// A flat space of objects under one prefix of a bucket or a folder. Keys are relative, with '/' between parts, no
/// "..". An object is there whole or not at all, whatever happens to the writer. Any thread may call; calls block until
/// done, and retry what is transient within their own deadline. Errors: not_found (key, and bucket: the message tells
/// which), already_exists, unauthorized, forbidden, invalid, throttled, unavailable, timeout, corrupt, io, and gone for
/// an upload that somebody else has ended. Never conflict: that is what a run says of another one.
class Store {
 public:
  virtual ~Store() = default;

  /// Success when objects can be looked for here: the bucket is there and takes the credentials, or the folder can be
  /// made and written. Changes nothing, and answers within seconds.
  [[nodiscard]] virtual Result<void> probe() = 0;
  [[nodiscard]] virtual Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options = {}) = 0;
  /// The whole object.
  [[nodiscard]] virtual Result<std::vector<std::byte>> get(std::string_view key) = 0;
  /// Fills `into` with the bytes from `offset` on; ErrorKind::corrupt when the object ends before.
  [[nodiscard]] virtual Result<void> get_range(std::string_view key, std::uint64_t offset,
                                               std::span<std::byte> into) = 0;
  /// Objects whose key begins with `prefix`, sorted by key.
  [[nodiscard]] virtual Result<std::vector<ObjectInfo>> list(std::string_view prefix) = 0;
  /// Success also when the key is not there; `cancelled` soon after a stop is requested, where the store is far away.
  [[nodiscard]] virtual Result<void> remove(std::string_view key, const std::stop_token& stop = {}) = 0;
  /// Removes the objects of all `keys`, in no order: several at a time, or many by one request where the server knows
  /// how. Success also for keys that are not there. The first error that is final ends the removal, and its message
  /// names the key; `cancelled` soon after a stop is requested. After an error some of the objects are still there.
  [[nodiscard]] virtual Result<void> remove_all(std::span<const std::string> keys, std::stop_token stop = {});
  /// Removes what writers that died in the midst of a put() left in folders of which `is_abandoned` is true: it takes
  /// the folder's key, without a slash at the end. No object is touched.
  [[nodiscard]] virtual Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) = 0;

  /// Whether put({.if_absent = true}) is atomic here. A store without it has a single writer at a time. May turn false
  /// once a server has refused such a put.
  [[nodiscard]] virtual bool has_conditional_create() const = 0;
  /// Whether what one process of a machine has read the next one there has out of memory, as with files.
  [[nodiscard]] virtual bool is_near() const { return false; }
  /// How many calls at a time get the most out of the store: a server far away answers several as quickly as one.
  [[nodiscard]] virtual std::size_t concurrency() const { return 8; }
  /// The error for which calls under way are tried again; empty while none is, and for a store that cannot tell.
  [[nodiscard]] virtual std::string trouble() const { return {}; }
  /// The URI of `key`, without any secret.
  [[nodiscard]] virtual std::string uri_of(std::string_view key) const = 0;
};

struct S3Options {
  std::string endpoint;  ///< "https://host:port". Empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else AWS's, by region.
  std::string region;    ///< Empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, else us-east-1.
  /// Whether the bucket stands in the path. Nothing: for every endpoint but AWS's own. Endpoints without a dotted name
  /// (localhost, addresses, service names) always get it.
  std::optional<bool> path_style = {};
  std::string sse;             ///< How the server encrypts: AES256, aws:kms or aws:kms:dsse. Empty: as the bucket says.
  std::string sse_kms_key_id;  ///< With aws:kms and aws:kms:dsse. Empty: the account's own.
};

/// A store for `uri`: file:///folder, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix,
/// command:/program?folder=/folder, or https://host/folder to read only. Nothing is contacted yet. Credentials are
/// looked for where each cloud's own clients do, at the first request. ErrorKind::invalid for another scheme or a
/// relative path, naming what would have been right, and for a variable that is wrong.
[[nodiscard]] Result<std::unique_ptr<Store>> open_store(std::string_view uri, const S3Options& s3 = {});

/// put() of one text.
[[nodiscard]] Result<void> put_text(Store& store, std::string_view key, std::string_view text,
                                    const PutOptions& options = {});
[[nodiscard]] Result<std::string> get_text(Store& store, std::string_view key);

}  // namespace trainyard::storage
