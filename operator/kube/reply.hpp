#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <optional>
#include <string_view>

#include "common/result.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::kube {

/// Parses the JSON of a reply or an event. Drops managedFields, which nothing reads and which can be half of a list's
/// memory. If `text` is not JSON, the result's is_discarded() is true.
[[nodiscard]] json parse_object(std::string_view text);

/// The error for a reply whose HTTP status is not a success. `tried` names the call ("create pods default/a"). `body`
/// is usually a Status object; a proxy may send any text. `retry_after`, from the header, takes precedence over the
/// value in the Status. HTTP 409 is ErrorKind::already_exists for a create that met an object of that name, and
/// ErrorKind::conflict otherwise.
///
/// The operator's answer to a 409: on a status it drops the plan's actions, reads the job and plans again
/// (reconcile/reconciler.hpp). On a create it reads the object: it goes on if the object is the job's, else the job is
/// Pending(NameConflict). On a delete it reads the object: another UID means that ours is gone
/// (reconcile/executor.hpp). Any other conflict of a create or a delete is tried again with backoff.
[[nodiscard]] Error error_of_reply(std::string_view tried, int http_status, std::string_view body,
                                   std::optional<std::chrono::milliseconds> retry_after = std::nullopt);

/// The error for a Status object in a reply or in a watch's ERROR event.
[[nodiscard]] Error error_of_status(std::string_view tried, const nlohmann::json& status);

/// The longest wait that is taken from a server's reply.
inline constexpr std::chrono::seconds retry_after_max{60};

}  // namespace trainyard::kube
