#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::kube {

/// The error of a reply whose HTTP status is no success. `tried` names the call ("create pods default/a"), `body` is
/// what the server sent: a Status object as a rule, any text from a proxy. `retry_after`, from the header, outdoes the
/// Status's own.
[[nodiscard]] Error error_of_reply(std::string_view tried, int http_status, std::string_view body,
                                   std::optional<std::chrono::milliseconds> retry_after = std::nullopt);

/// The error of a Status object, as it stands in a reply or in a watch's ERROR event.
[[nodiscard]] Error error_of_status(std::string_view tried, const nlohmann::json& status);

/// The longest wait that is taken from a server's reply.
inline constexpr std::chrono::seconds retry_after_max{60};

}  // namespace trainyard::kube
