#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// Azure's word for what it refuses, such as "BlobNotFound"; empty when it says none.
[[nodiscard]] std::string azure_code(const HttpReply& reply);

/// The error that a refusal of Azure Blob Storage means: the kind is what the caller can do, the message holds
/// `doing`, the server's code and words, and advice where there is any. Never one of `secrets`. Pure.
[[nodiscard]] Error azure_error(const HttpReply& reply, std::string_view doing, std::string_view endpoint,
                                const std::vector<std::string>& secrets);

}  // namespace trainyard::storage
