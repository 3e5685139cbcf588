#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/http_message.hpp"

/// The errors of Azure Storage, and its Shared Key authorisation. Pure but for the cryptography.
/// Source: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
namespace trainyard::storage {

/// The error code in Azure's `reply`, such as "BlobNotFound"; empty when it has none.
[[nodiscard]] std::string azure_code(const HttpReply& reply);

/// The error that `reply`, a refusal of Azure Blob Storage, means. The message holds `doing`, the server's code and
/// text, and advice where there is any, but none of `secrets`. Pure.
[[nodiscard]] Error azure_error(const HttpReply& reply, std::string_view doing, std::string_view endpoint,
                                const std::vector<std::string>& secrets);

/// The parts of a request that are signed.
struct AzureSignedParts {
  std::string method;
  std::string path;                                        ///< Percent-encoded as it is sent.
  std::vector<std::pair<std::string, std::string>> query;  ///< Not encoded.
  std::map<std::string, std::string> headers;              ///< Names in lower case; must hold x-ms-date.
  std::uint64_t body_bytes = 0;
};

[[nodiscard]] std::string azure_string_to_sign(const AzureSignedParts& request, std::string_view account);

/// The value of the Authorization header. `key` is the account's key, decoded.
[[nodiscard]] std::string azure_authorization(const AzureSignedParts& request, std::string_view account,
                                              std::string_view key);

/// "Fri, 26 Jun 2015 23:39:12 GMT"
[[nodiscard]] std::string azure_date(Time time);

}  // namespace trainyard::storage
