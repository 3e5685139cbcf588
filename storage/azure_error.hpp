#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// The error code in Azure's `reply`, such as "BlobNotFound"; empty when it has none.
[[nodiscard]] std::string azure_code(const HttpReply& reply);

/// The error that `reply`, a refusal of Azure Blob Storage, means. The message holds `doing`, the server's code and
/// text, and advice where there is any, but none of `secrets`. Pure.
[[nodiscard]] Error azure_error(const HttpReply& reply, std::string_view doing, std::string_view endpoint,
                                const std::vector<std::string>& secrets);

}  // namespace trainyard::storage
